//! Counts and times inside a JSON column. A row whose column holds no object has no room for them: the column is left alone,
//! and the side table, which hears of every failure, tells instead.

use super::Writer;
use super::write::{literal, pg_path, sqlite_path};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Mapping, State};

/// Whether a row has room for a key. Where there is nothing yet there is, but not for a key inside another.
pub(super) fn has_room(writer: &Writer<'_>, path: &ColumnPath) -> String {
    let (json, outer) = (writer.json(&path.column), outer(path));
    let kind = match writer.dialect {
        Dialect::Postgres => format!("jsonb_typeof({json} #> {})", literal(&pg_path(outer))),
        Dialect::Sqlite => format!("json_type({json}, {})", literal(&sqlite_path(outer))),
    };
    let nothing = if outer.is_empty() { format!("{} is null", writer.of(&path.column)) } else { "false".to_owned() };
    format!("coalesce({kind} = 'object', {nothing})")
}

/// What stands at a column, of rows that have room for it; of others what is told `beside`.
pub(crate) fn or_beside(
    mapping: &Mapping,
    writer: &Writer<'_>,
    path: &ColumnPath,
    there: String,
    beside: &str,
) -> String {
    if !may_lack_room(mapping, path) {
        return there;
    }
    format!("case when {} then {there} else {beside} end", has_room(writer, path))
}

/// Whether some rows may have no room there: not those that tell their state right beside it.
fn may_lack_room(mapping: &Mapping, path: &ColumnPath) -> bool {
    let told_beside = |state: &ColumnPath| state.column == path.column && outer(state) == outer(path);
    !path.path.is_empty() && !matches!(&mapping.state, State::Words { path: state, .. } if told_beside(state))
}

/// What the side table has of a row, in a statement whose `$1` is the mapping's name.
pub(super) fn beside(mapping: &Mapping, writer: &Writer<'_>, what: &str) -> String {
    let row = writer.text(&ColumnPath::column(mapping.row.clone()));
    format!("(select {what} from {} s where s.mapping = $1 and s.row_id = {row})", writer.own("sidecar"))
}

/// The keys around the last one.
fn outer(path: &ColumnPath) -> &[String] {
    path.path.split_last().map_or(&[], |(_, outer)| outer)
}
