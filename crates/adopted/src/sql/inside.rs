//! Counts and times inside a JSON column. A row whose column holds no object has no room for them: the column is left alone,
//! and the side table, which hears of every failure, tells instead.

use super::Writer;
use super::write::{literal, pg_path, sqlite_path};
use crate::ground::Dialect;
use crate::layout::{Layout, Place, State};

/// Whether a row has room for a key. Where there is nothing yet there is, but not for a key inside another.
pub(super) fn has_room(writer: &Writer<'_>, place: &Place) -> String {
    let (json, outer) = (writer.json(&place.column), outer(place));
    let kind = match writer.dialect {
        Dialect::Postgres => format!("jsonb_typeof({json} #> {})", literal(&pg_path(outer))),
        Dialect::Sqlite => format!("json_type({json}, {})", literal(&sqlite_path(outer))),
    };
    let nothing = if outer.is_empty() { format!("{} is null", writer.of(&place.column)) } else { "false".to_owned() };
    format!("coalesce({kind} = 'object', {nothing})")
}

/// What stands at a place, of rows that have room for it; of others what is told `beside`.
pub(crate) fn or_beside(layout: &Layout, writer: &Writer<'_>, place: &Place, there: String, beside: &str) -> String {
    if !may_lack_room(layout, place) {
        return there;
    }
    format!("case when {} then {there} else {beside} end", has_room(writer, place))
}

/// Whether some rows may have no room there: not those that tell their state right beside it.
fn may_lack_room(layout: &Layout, place: &Place) -> bool {
    let told_beside = |state: &Place| state.column == place.column && outer(state) == outer(place);
    !place.path.is_empty() && !matches!(&layout.state, State::Words { place: state, .. } if told_beside(state))
}

/// What the side table has of a row, in a statement whose `$1` is the layout's name.
pub(super) fn beside(layout: &Layout, writer: &Writer<'_>, what: &str) -> String {
    let row = writer.text(&Place::column(layout.row.clone()));
    format!("(select {what} from {} s where s.layout = $1 and s.row_id = {row})", writer.own("sidecar"))
}

/// The keys around the last one.
fn outer(place: &Place) -> &[String] {
    place.path.split_last().map_or(&[], |(_, outer)| outer)
}
