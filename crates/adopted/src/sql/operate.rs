//! What operators write: rows that are pending again, done, or gone. `$1` layout, `$2` our clock, `$3` rows as a JSON list.

use super::assign::{Assignments, New};
use super::settle::{delivered, later, returned};
use super::{Writer, literal};
use crate::layout::{Layout, Place, State};

fn update(layout: &Layout, writer: &Writer<'_>, new: &Assignments) -> String {
    format!(
        "update {} as t set {} from {} where t.{} = {} and $1 is not null and $2 is not null returning {}",
        layout.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", &["id", "after", "attempts"]),
        layout.row.quoted(),
        writer.row_id(&layout.row, "x.id"),
        returned(layout, writer)
    )
}

/// Pending again, with no failed tries.
pub(crate) fn pending_again(layout: &Layout, writer: &Writer<'_>) -> String {
    let mut new = Assignments::default();
    match &layout.state {
        State::Words { place, pending, .. } => new.set(place, New::Text(literal(pending))),
        State::Stamp(column) => new.set(&Place::column(column.clone()), New::Number("null".to_owned())),
        State::Flag(column) => new.set(&Place::column(column.clone()), New::Number("false".to_owned())),
        State::Presence => {}
    }
    if let Some(place) = &layout.attempts {
        new.set(place, New::Number("cast(x.attempts as integer)".to_owned()));
    }
    if let Some(place) = &layout.next_attempt {
        new.set(place, New::Moment(later(writer)));
    }
    if let Some(column) = &layout.done_at {
        new.set(&Place::column(column.clone()), New::Number("null".to_owned()));
    }
    if new.is_empty() {
        // Nothing to write: being there is being pending.
        new.set(&Place::column(layout.row.clone()), New::Number(format!("t.{}", layout.row.quoted())));
    }
    update(layout, writer, &new)
}

/// Done, though nobody delivered it.
pub(crate) fn done(layout: &Layout, writer: &Writer<'_>) -> String {
    let new = delivered(layout, writer);
    if new.is_empty() { delete(layout, writer) } else { update(layout, writer, &new) }
}

/// Gone.
pub(crate) fn delete(layout: &Layout, writer: &Writer<'_>) -> String {
    format!(
        "delete from {} as t where t.{} in (select {} from {}) and $1 is not null and $2 is not null returning {}",
        layout.table.quoted(),
        layout.row.quoted(),
        writer.row_id(&layout.row, "x.id"),
        writer.unpacked("$3", &["id"]),
        returned(layout, writer)
    )
}

/// Dead by an operator's word: on the table, and in the side table.
pub(crate) fn given_up(layout: &Layout, writer: &Writer<'_>) -> Vec<String> {
    let mut statements = Vec::new();
    let new = super::settle::died(layout, writer);
    if !new.is_empty() {
        statements.push(format!(
            "update {} as t set {} from {} where t.{} = {} and {} and $1 is not null and $2 is not null",
            layout.table.quoted(),
            new.text(writer),
            writer.unpacked("$3", &["id", "attempts", "after", "error"]),
            layout.row.quoted(),
            writer.row_id(&layout.row, "x.id"),
            super::pending(layout, writer),
        ));
    }
    statements.push(super::settle::put_aside(writer, "$2 is not null"));
    statements
}

/// Copies rows into the archive, column by column as the two tables agree by position.
pub(crate) fn archive(layout: &Layout, writer: &Writer<'_>, archive: &crate::layout::TableName) -> String {
    let columns: Vec<String> = writer.columns.0.keys().map(crate::layout::Name::quoted).collect();
    let columns = columns.join(", ");
    format!(
        "insert into {} ({columns}) select {columns} from {} t where t.{} in (select {} from {}) and $1 is not null and $2 is not null \
         on conflict do nothing",
        archive.quoted(),
        layout.table.quoted(),
        layout.row.quoted(),
        writer.row_id(&layout.row, "x.id"),
        writer.unpacked("$3", &["id"]),
    )
}
