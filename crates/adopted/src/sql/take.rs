//! Reading rows that are due.

use std::sync::Arc;

use super::{Writer, made, not_aside, pending};
use crate::layout::{Layout, Place};

/// Columns of a read before those of the event: the row's id, its failed tries, its place in the order.
pub(crate) const READ_FIXED: usize = 3;

/// Statements that read.
#[derive(Debug, Clone)]
pub(crate) struct Takes {
    /// Due rows from the front. `$1` layout, `$2` our clock, `$3` rows in hand, `$4` blocked keys, `$5` how many.
    pub(crate) first: Arc<str>,
    /// The same behind a place in the order: `$6`, a JSON list.
    pub(crate) behind: Arc<str>,
    /// Keys of rows that wait for another try, and for how many microseconds; the next one first. `$1` layout, `$2` our clock, `$3` how many.
    pub(crate) waiting: Arc<str>,
}

impl Takes {
    pub(super) fn new(layout: &Layout, writer: &Writer<'_>) -> Self {
        let read = |behind: bool| made(read(layout, writer, behind));
        Self { first: read(false), behind: read(true), waiting: made(waiting(layout, writer)) }
    }
}

fn read(layout: &Layout, writer: &Writer<'_>, behind: bool) -> String {
    let row = Place::column(layout.row.clone());
    let row_text = writer.text(&row);
    let attempts = match &layout.attempts {
        Some(place) => format!("coalesce({}, '0')", writer.text(place)),
        None => format!(
            "coalesce((select cast(s.attempts as text) from {} s where s.layout = $1 and s.row_id = {row_text}), '0')",
            writer.own("sidecar")
        ),
    };
    let mut columns = vec![row_text.clone(), attempts, place_in_order(layout, writer)];
    columns.extend(event_columns(layout, writer));
    let now = writer.now("$2");
    let mut conditions = vec![pending(layout, writer), due(layout, writer, &now, &row_text)];
    conditions.extend(not_aside(layout, writer, "$1"));
    conditions.push(format!("{row_text} not in {}", writer.listed("$3")));
    if let Some(key) = layout.order_key() {
        let key = writer.text(key);
        conditions.push(format!("({key} is null or {key} not in {})", writer.listed("$4")));
    } else {
        // Named all the same: a placeholder must stand somewhere.
        conditions.push("$4 is not null".to_owned());
    }
    if behind {
        conditions.push(after(layout, writer));
    }
    format!(
        "select {} from {} t where {} order by {} limit cast($5 as integer)",
        columns.join(", "),
        layout.table.quoted(),
        conditions.join(" and "),
        order(layout).join(", ")
    )
}

/// The columns of the order, the row's own last.
fn order(layout: &Layout) -> Vec<String> {
    let mut names = layout.order.clone();
    if !names.contains(&layout.row) {
        names.push(layout.row.clone());
    }
    names.iter().map(|name| format!("t.{}", name.quoted())).collect()
}

/// Where a row stands in the order, as a JSON list of texts.
fn place_in_order(layout: &Layout, writer: &Writer<'_>) -> String {
    match writer.dialect {
        crate::Dialect::Postgres => {
            let texts: Vec<String> = order(layout).iter().map(|column| format!("{column}::text")).collect();
            format!("jsonb_build_array({})::text", texts.join(", "))
        }
        crate::Dialect::Sqlite => format!("json_array({})", order(layout).join(", ")),
    }
}

/// Whether a row stands behind the place `$6`.
fn after(layout: &Layout, writer: &Writer<'_>) -> String {
    let mut names = layout.order.clone();
    if !names.contains(&layout.row) {
        names.push(layout.row.clone());
    }
    let values: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(n, name)| match writer.dialect {
            crate::Dialect::Postgres => writer.row_id(name, &format!("($6::jsonb ->> {n})")),
            crate::Dialect::Sqlite => format!("json_extract($6, '$[{n}]')"),
        })
        .collect();
    format!("({}) > ({})", order(layout).join(", "), values.join(", "))
}

/// Whether a row's time has come.
fn due(layout: &Layout, writer: &Writer<'_>, now: &str, row: &str) -> String {
    match &layout.next_attempt {
        Some(place) => {
            let moment = writer.moment(place);
            // Bare where it can be, so that an index serves it.
            let never_null =
                place.as_column().and_then(|name| writer.columns.get(name)).is_some_and(|column| !column.nullable);
            if never_null { format!("{moment} <= {now}") } else { format!("({moment} is null or {moment} <= {now})") }
        }
        None => format!(
            "not exists (select 1 from {} s where s.layout = $1 and s.row_id = {row} and s.due > {now})",
            writer.own("sidecar")
        ),
    }
}

fn waiting(layout: &Layout, writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    match &layout.next_attempt {
        Some(place) => {
            let moment = writer.moment(place);
            let row = writer.text(&Place::column(layout.row.clone()));
            let key = match layout.order_key() {
                Some(key) => format!(
                    "case when not exists (select 1 from {} s where s.layout = $1 and s.row_id = {row} and not s.blocks) then {} end",
                    writer.own("sidecar"),
                    writer.text(key)
                ),
                None => "cast(null as text)".to_owned(),
            };
            format!(
                "select {key}, {} from {} t where $1 is not null and {} and {moment} > {now} order by {moment} limit cast($3 as integer)",
                writer.until(&moment, &now),
                layout.table.quoted(),
                pending(layout, writer),
            )
        }
        None => format!(
            "select case when s.blocks then s.key end, {} from {} s where s.layout = $1 and s.due > {now} order by s.due limit cast($3 as integer)",
            writer.until("s.due", &now),
            writer.own("sidecar")
        ),
    }
}

/// What an event is made of, in the order that [`crate::source`] reads it.
fn event_columns(layout: &Layout, writer: &Writer<'_>) -> Vec<String> {
    let event = &layout.event;
    let nothing = || "cast(null as text)".to_owned();
    let text = |place: &Option<Place>| place.as_ref().map_or_else(nothing, |place| writer.text(place));
    let occurred_at = match layout.occurred_at(writer.columns) {
        Some(place) => writer.micros(&writer.moment(&place)),
        None => nothing(),
    };
    let headers = event.headers.as_ref().map_or_else(nothing, |place| writer.json_text(place));
    let mut columns = vec![
        writer.text(&event.id),
        writer.text(&event.event_type),
        writer.json_text(&event.payload),
        text(&event.key),
        text(&event.aggregate_type),
        text(&event.aggregate_id),
        text(&event.tenant),
        occurred_at,
        text(&event.correlation_id),
        text(&event.causation_id),
        text(&event.schema_version),
        headers,
    ];
    columns.extend(event.attributes.iter().map(|(_, place)| writer.value(place)));
    columns
}
