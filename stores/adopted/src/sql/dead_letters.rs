//! Copying dead events into a table of dead letters: one row per event, made or brought up to date.
//!
//! Runs before the row itself is marked, on rows that are still pending: a settle that is repeated finds none. What the table
//! cannot hold, such as an event without an id, is left out: the side table has it, and one row must not stop the others.

use std::sync::Arc;

use super::columns::Columns;
use super::settle::meant;
use super::{Writer, made};
use crate::mapping::{DeadTable, Mapping, Name};

/// Brings the letters that are there up to date, then makes the others. Values and fields as for a death.
pub(super) fn statements(
    mapping: &Mapping,
    writer: &Writer<'_>,
    dead: &DeadTable,
    columns: &Columns,
    condition: &str,
) -> [Arc<str>; 2] {
    let there = Writer { columns, ..writer.clone() };
    let now = writer.now("$2");
    let rows = writer.unpacked("$3", &["id", "fence", "error"]);
    let source = format!("{rows}, {} t", mapping.table.quoted());
    let event_id = there.fitting(&dead.id, &format!("nullif({}, '')", writer.text(&mapping.event.id)));
    let payload = writer.of(&mapping.event.payload.column);
    let at = |name: &Name| there.stored_moment(name, &now);
    let error = |name: &Name| there.row_id(name, "x.error");
    let event_type = |name: &Name| there.row_id(name, &writer.text(&mapping.event.event_type));
    let mut fits = vec![meant(mapping, writer, condition), format!("{event_id} is not null")];
    for (name, value) in [(&dead.event_type, writer.text(&mapping.event.event_type)), (&dead.payload, payload.clone())]
    {
        let needed = name.as_ref().and_then(|name| columns.get(name)).is_some_and(|column| !column.nullable);
        fits.extend(needed.then(|| format!("{value} is not null")));
    }
    let fits = fits.join(" and ");

    let mut new: Vec<String> = Vec::new();
    let mut set = |name: &Option<Name>, value: &dyn Fn(&Name) -> String| {
        new.extend(name.as_ref().map(|name| format!("{} = {}", name.quoted(), value(name))));
    };
    set(&dead.event_type, &event_type);
    set(&dead.payload, &|_| payload.clone());
    set(&dead.error, &error);
    set(&dead.last_at, &at);
    set(&dead.attempts, &|name| format!("coalesce(d.{}, 0) + 1", name.quoted()));
    if new.is_empty() {
        new.push(format!("{id} = d.{id}", id = dead.id.quoted()));
    }
    let update = format!(
        "update {} as d set {} from {source} where d.{} = {event_id} and {fits}",
        dead.table.quoted(),
        new.join(", "),
        dead.id.quoted()
    );

    let mut names = vec![dead.id.quoted()];
    let mut values = vec![event_id.clone()];
    let mut add = |name: &Option<Name>, value: &dyn Fn(&Name) -> String| {
        if let Some(name) = name {
            names.push(name.quoted());
            values.push(value(name));
        }
    };
    add(&dead.event_type, &event_type);
    add(&dead.payload, &|_| payload.clone());
    add(&dead.error, &error);
    add(&dead.first_at, &at);
    add(&dead.last_at, &at);
    add(&dead.attempts, &|_| "1".to_owned());
    let insert = format!(
        "insert into {table} ({}) select {} from {source} where {fits} \
         and not exists (select 1 from {table} d where d.{} = {event_id}) on conflict do nothing",
        names.join(", "),
        values.join(", "),
        dead.id.quoted(),
        table = dead.table.quoted()
    );
    [made(update), made(insert)]
}
