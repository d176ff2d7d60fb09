//! What operators write: rows that are pending again, done, or gone. `$1` mapping, `$2` our clock, `$3` rows as a JSON list.
//! They need no lease: what they change is in nobody's hands, or its owner finds it changed.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::columns::Columns;
use super::settle::{delivered, later, returned};
use super::{Writer, literal, made};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Mapping, Name, State, TableName};

/// In column of a lease; names what a statement may not need.
const ANYBODY: &str = "$1 is not null and $2 is not null";

fn update(mapping: &Mapping, writer: &Writer<'_>, new: &Assignments, condition: &str) -> String {
    format!(
        "update {} as t set {} from {} where {} = {} and {condition} returning {}",
        mapping.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", &["id", "after", "attempts"]),
        writer.of(&mapping.row),
        writer.row_id(&mapping.row, "x.id"),
        returned(mapping, writer)
    )
}

/// A step of a replay. Pending again: moved back from the log where there is one, copied where replays are rows of their
/// own. The first statement brings the rows that are.
pub(crate) fn replayed(mapping: &Mapping, writer: &Writer<'_>, log: &Columns) -> Vec<String> {
    let mut statements = match &mapping.log {
        Some(table) => super::archive::back(mapping, writer, table, log, ANYBODY),
        None if mapping.replay_suffix.is_some() => vec![copied(mapping, writer)],
        None => vec![pending_again(mapping, writer)],
    };
    statements.push(clear(writer));
    statements
}

/// Pending again, with no failed tries.
fn pending_again(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let mut new = afresh(mapping, writer);
    if new.is_empty() {
        // Nothing to write: being there is being pending.
        new.set(&ColumnPath::column(mapping.row.clone()), New::Number(writer.of(&mapping.row)));
    }
    update(mapping, writer, &new, ANYBODY)
}

/// A pending row of the same event beside each, with the next number. The old ones stay as they are.
fn copied(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let mut new = afresh(mapping, writer);
    if let Some(path) = mapping.appended_at(writer.columns).filter(|path| path.path.is_empty()) {
        new.set(&path, New::Moment(writer.now("$2")));
    }
    let start = format!(
        "{} || {}",
        writer.text(&mapping.event.id),
        literal(mapping.replay_suffix.as_deref().unwrap_or_default())
    );
    let other = writer.called("c");
    let name = other.text(&ColumnPath::column(mapping.row.clone()));
    let number = format!("substr({name}, length({start}) + 1)");
    let is_number = match writer.dialect {
        Dialect::Postgres => format!("{number} ~ '^[0-9]{{1,9}}$'"),
        Dialect::Sqlite => format!("length({number}) between 1 and 9 and {number} not glob '*[^0-9]*'"),
    };
    let next = format!(
        "coalesce((select max(cast({number} as integer)) from {} c where substr({name}, 1, length({start})) = {start} \
         and {is_number}), 0) + 1",
        mapping.table.quoted()
    );
    let row = writer.row_id(&mapping.row, &format!("({start} || cast({next} as text))"));
    let mut values = new.values(writer);
    values.push((mapping.row.clone(), row));
    let values = super::archive::with_the_rest(writer, values, writer.columns);
    let (columns, values): (Vec<String>, Vec<String>) =
        values.into_iter().map(|(name, value)| (name.quoted(), value)).unzip();
    format!(
        "insert into {} ({}) select {} from {} t join {} on {} = {} where {ANYBODY} on conflict do nothing returning {}",
        mapping.table.quoted(),
        columns.join(", "),
        values.join(", "),
        mapping.table.quoted(),
        writer.unpacked("$3", &["id", "after", "attempts"]),
        writer.of(&mapping.row),
        writer.row_id(&mapping.row, "x.id"),
        mapping.row.quoted(),
    )
}

/// What makes a row look as if it had never been tried.
pub(super) fn afresh(mapping: &Mapping, writer: &Writer<'_>) -> Assignments {
    let mut new = Assignments::default();
    match &mapping.state {
        State::Words { path, pending, .. } => new.set(path, New::Text(literal(pending))),
        State::Stamp(column) => new.set(&ColumnPath::column(column.clone()), New::Number("null".to_owned())),
        State::Flag(column) => new.set(&ColumnPath::column(column.clone()), New::Number("false".to_owned())),
        State::Presence => {}
    }
    if let Some(path) = &mapping.attempts {
        new.set(path, New::Number("cast(x.attempts as integer)".to_owned()));
    }
    if let Some(path) = &mapping.next_attempt {
        new.set(path, New::Moment(later(writer)));
    }
    if let Some(column) = &mapping.done_at {
        new.set(&ColumnPath::column(column.clone()), New::Number("null".to_owned()));
    }
    new
}

/// Done, though nobody delivered it.
pub(crate) fn done(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let new = delivered(mapping, writer);
    if new.is_empty() { delete(mapping, writer) } else { update(mapping, writer, &new, ANYBODY) }
}

/// The same of those rows only that still look pending.
pub(crate) fn done_if_pending(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let condition = format!("{ANYBODY} and {}", super::pending(mapping, writer));
    update(mapping, writer, &delivered(mapping, writer), &condition)
}

/// Gone, of what is done or dead.
pub(crate) fn delete(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!(
        "delete from {} as t where {} in (select {} from {}) and {ANYBODY} returning {}",
        mapping.settled().quoted(),
        writer.of(&mapping.row),
        writer.row_id(&mapping.row, "x.id"),
        writer.unpacked("$3", &["id"]),
        returned(mapping, writer)
    )
}

/// Dead by an operator's word: in the side table, in the table of dead letters, and on the row itself, last.
pub(crate) fn given_up(mapping: &Mapping, writer: &Writer<'_>, letters: &Columns) -> Vec<Arc<str>> {
    let mut statements = vec![made(super::settle::park(mapping, writer, ANYBODY))];
    if let Some(dead) = &mapping.dead_letters {
        statements.extend(super::dead_letters::statements(mapping, writer, dead, letters, ANYBODY));
    }
    let new = super::settle::died(mapping, writer);
    // Nobody has published it: it must not look done.
    if !new.is_empty() && !mapping.leaves_dead_letters_to_the_transport() {
        statements.push(made(format!(
            "update {} as t set {} from {} where {}",
            mapping.table.quoted(),
            new.text(writer),
            writer.unpacked("$3", super::settle::FAILED),
            super::settle::meant(mapping, writer, ANYBODY),
        )));
    }
    statements
}

/// Forgets what the side table knows.
pub(crate) fn clear(writer: &Writer<'_>) -> String {
    super::settle::clear(writer, ANYBODY)
}

/// Copies rows into the archive, whose columns have the same names.
pub(crate) fn archive(mapping: &Mapping, writer: &Writer<'_>, columns: &Columns, archive: &TableName) -> String {
    let columns = columns.0.keys().map(Name::quoted).collect::<Vec<_>>().join(", ");
    format!(
        "insert into {} ({columns}) select {columns} from {} t where {} in (select {} from {}) and {ANYBODY} \
         on conflict do nothing",
        archive.quoted(),
        mapping.settled().quoted(),
        writer.of(&mapping.row),
        writer.row_id(&mapping.row, "x.id"),
        writer.unpacked("$3", &["id"]),
    )
}
