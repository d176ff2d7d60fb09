//! What operators write: rows that are pending again, done, or gone. `$1` layout, `$2` our clock, `$3` rows as a JSON list.
//! They need no lease: what they change is in nobody's hands, or its owner finds it changed.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::columns::Columns;
use super::settle::{delivered, later, returned};
use super::{Writer, literal, made};
use crate::ground::Dialect;
use crate::layout::{Layout, Name, Place, State, TableName};

/// In place of a lease; names what a statement may not need.
const ANYBODY: &str = "$1 is not null and $2 is not null";

/// That a replay (`$4`) runs and stands where it was found (`$5`).
fn fence(writer: &Writer<'_>) -> String {
    let replays = writer.own("adopted_replay");
    format!(
        "{ANYBODY} and exists (select 1 from {replays} p where p.id = $4 and p.cursor = $5 and p.state = 'running')"
    )
}

fn update(layout: &Layout, writer: &Writer<'_>, new: &Assignments, condition: &str) -> String {
    format!(
        "update {} as t set {} from {} where {} = {} and {condition} returning {}",
        layout.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", &["id", "after", "attempts"]),
        writer.of(&layout.row),
        writer.row_id(&layout.row, "x.id"),
        returned(layout, writer)
    )
}

/// A step of a replay. Pending again: moved back from the log where there is one, copied where replays are rows of their
/// own. The first statement brings the rows that are.
pub(crate) fn replayed(layout: &Layout, writer: &Writer<'_>, log: &Columns) -> Vec<String> {
    let fence = fence(writer);
    let mut statements = match &layout.log {
        Some(table) => super::moved::back(layout, writer, table, log, &fence),
        None if layout.replay_suffix.is_some() => vec![copied(layout, writer, &fence)],
        None => vec![pending_again(layout, writer, &fence)],
    };
    statements.push(super::settle::clear(writer, &fence));
    statements
}

/// Pending again, with no failed tries.
fn pending_again(layout: &Layout, writer: &Writer<'_>, fence: &str) -> String {
    let mut new = afresh(layout, writer);
    if new.is_empty() {
        // Nothing to write: being there is being pending.
        new.set(&Place::column(layout.row.clone()), New::Number(writer.of(&layout.row)));
    }
    update(layout, writer, &new, fence)
}

/// A pending row of the same event beside each, with the next number. The old ones stay as they are.
fn copied(layout: &Layout, writer: &Writer<'_>, fence: &str) -> String {
    let mut new = afresh(layout, writer);
    if let Some(place) = layout.appended_at(writer.columns).filter(|place| place.path.is_empty()) {
        new.set(&place, New::Moment(writer.now("$2")));
    }
    let start = format!(
        "{} || {}",
        writer.text(&layout.event.id),
        literal(layout.replay_suffix.as_deref().unwrap_or_default())
    );
    let other = writer.called("c");
    let name = other.text(&Place::column(layout.row.clone()));
    let number = format!("substr({name}, length({start}) + 1)");
    let is_number = match writer.dialect {
        Dialect::Postgres => format!("{number} ~ '^[0-9]{{1,9}}$'"),
        Dialect::Sqlite => format!("length({number}) between 1 and 9 and {number} not glob '*[^0-9]*'"),
    };
    let next = format!(
        "coalesce((select max(cast({number} as integer)) from {} c where substr({name}, 1, length({start})) = {start} \
         and {is_number}), 0) + 1",
        layout.table.quoted()
    );
    let row = writer.row_id(&layout.row, &format!("({start} || cast({next} as text))"));
    let mut values = new.values(writer);
    values.push((layout.row.clone(), row));
    let values = super::moved::with_the_rest(writer, values, writer.columns);
    let (columns, values): (Vec<String>, Vec<String>) =
        values.into_iter().map(|(name, value)| (name.quoted(), value)).unzip();
    format!(
        "insert into {} ({}) select {} from {} t join {} on {} = {} where {fence} on conflict do nothing returning {}",
        layout.table.quoted(),
        columns.join(", "),
        values.join(", "),
        layout.table.quoted(),
        writer.unpacked("$3", &["id", "after", "attempts"]),
        writer.of(&layout.row),
        writer.row_id(&layout.row, "x.id"),
        layout.row.quoted(),
    )
}

/// What makes a row look as if it had never been tried.
pub(super) fn afresh(layout: &Layout, writer: &Writer<'_>) -> Assignments {
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
    new
}

/// Done, though nobody delivered it.
pub(crate) fn done(layout: &Layout, writer: &Writer<'_>) -> String {
    let new = delivered(layout, writer);
    if new.is_empty() { delete(layout, writer) } else { update(layout, writer, &new, ANYBODY) }
}

/// Gone, of what is done or dead.
pub(crate) fn delete(layout: &Layout, writer: &Writer<'_>) -> String {
    format!(
        "delete from {} as t where {} in (select {} from {}) and {ANYBODY} returning {}",
        layout.settled().quoted(),
        writer.of(&layout.row),
        writer.row_id(&layout.row, "x.id"),
        writer.unpacked("$3", &["id"]),
        returned(layout, writer)
    )
}

/// Dead by an operator's word: in the side table, in the table of dead letters, and on the row itself, last.
pub(crate) fn given_up(layout: &Layout, writer: &Writer<'_>, letters: &Columns) -> Vec<Arc<str>> {
    let mut statements = vec![made(super::settle::aside(layout, writer, ANYBODY))];
    if let Some(dead) = &layout.dead_letters {
        statements.extend(super::bury::statements(layout, writer, dead, letters, ANYBODY));
    }
    let new = super::settle::died(layout, writer);
    if !new.is_empty() {
        statements.push(made(format!(
            "update {} as t set {} from {} where {}",
            layout.table.quoted(),
            new.text(writer),
            writer.unpacked("$3", super::settle::FAILED),
            super::settle::meant(layout, writer, ANYBODY),
        )));
    }
    statements
}

/// Forgets what the side table knows.
pub(crate) fn clear(writer: &Writer<'_>) -> String {
    super::settle::clear(writer, ANYBODY)
}

/// Copies rows into the archive, whose columns have the same names.
pub(crate) fn archive(layout: &Layout, writer: &Writer<'_>, columns: &Columns, archive: &TableName) -> String {
    let columns = columns.0.keys().map(Name::quoted).collect::<Vec<_>>().join(", ");
    format!(
        "insert into {} ({columns}) select {columns} from {} t where {} in (select {} from {}) and {ANYBODY} \
         on conflict do nothing",
        archive.quoted(),
        layout.settled().quoted(),
        writer.of(&layout.row),
        writer.row_id(&layout.row, "x.id"),
        writer.unpacked("$3", &["id"]),
    )
}
