//! Writing what became of rows.
//!
//! Each statement says which rows it means, that they are still as they were read, and that the table is still ours; what
//! somebody else changed meanwhile is left alone. Those that only tell of a row run before the row itself is marked.
//! `$1` mapping, `$2` our clock, `$3` the rows as a JSON list, `$4` route, `$5` holder, `$6` term.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::columns::Columns;
use super::mark::{self, Mark, counted_apart};
use super::{Writer, archive, claim, literal, made, pending};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Death, Mapping, State};

/// Statements that settle. Those on the adopted table bring the ids of the rows that agreed.
#[derive(Debug, Clone)]
pub(crate) struct Settles {
    /// Whether the table is ours, where somebody owns it: one row, or none. `$1` route, `$2` holder, `$3` term.
    pub(crate) fence: Option<Arc<str>>,
    /// Delivered; the first brings the rows. Fields: `id` and `fence`, what its count of tries must
    /// be, here and below.
    pub(crate) done: Vec<Arc<str>>,
    /// Failed, to be tried again. Fields: `id`, `attempts`, `after` in milliseconds, `error`.
    pub(crate) retry: Option<Arc<str>>,
    /// Given up; the first brings the rows. Fields as for `retry`, and `errors`.
    pub(crate) dead: Vec<Arc<str>>,
    /// What the side table knows of failures. Fields: `id`, `event_id`, `key`, `state`, `after`, `attempts`, `code`, `error`, `excused`, `held`.
    pub(crate) parked: Arc<str>,
    /// Forgets what the side table knows. Fields: `id`.
    pub(crate) clear: Arc<str>,
    /// Failed tries. Fields: `id`, `fence`, `attempt`, `outcome`, `code`, `error`, `took_ms`, `handlers`.
    pub(crate) attempts: Arc<str>,
    /// Counts what is about to be delivered, where `done` does not. Fields: `id`, `fence`.
    pub(crate) count: Vec<Arc<str>>,
    /// Counts what failed. Fields: `state`.
    pub(crate) failed: Arc<str>,
}

/// What each field of a list is called.
pub(super) const FAILED: &[&str] = &["id", "fence", "attempts", "after", "error"];

impl Settles {
    pub(super) fn new(mapping: &Mapping, writer: &Writer<'_>, log: &Columns) -> Self {
        let ours = ours(mapping, writer);
        let meant = meant(mapping, writer, &ours);
        let (done, dead) = match &mapping.log {
            Some(table) => {
                let moved = |new: &Assignments| archive::into_log(mapping, writer, table, log, new, &meant);
                (moved(&delivered(mapping, writer)), Some(moved(&died(mapping, writer))))
            }
            None => (Mark::new(done(mapping, writer)), dead(mapping, writer)),
        };
        let all = |texts: Vec<String>| texts.into_iter().map(made).collect();
        Self {
            fence: mapping.has_owner().then(|| made(fence(writer))),
            done: all(done.counted(mapping, writer)),
            retry: retry(mapping, writer).map(made),
            dead: all(dead.map(Mark::texts).unwrap_or_default()),
            parked: made(park(mapping, writer, &ours)),
            clear: made(clear(writer, &ours)),
            attempts: made(attempts(mapping, writer)),
            count: all(counted_apart(mapping, writer)),
            failed: made(mark::failed(mapping, writer)),
        }
    }
}

fn fence(writer: &Writer<'_>) -> String {
    let lock = if writer.dialect == Dialect::Postgres { " for share" } else { "" };
    format!(
        "select 'ours' from {} where name = $1 and holder = $2 and term = cast($3 as bigint){lock}",
        writer.own("adopted_route")
    )
}

/// That the table is ours, inside another statement; where relays share it, the rows are.
pub(super) fn ours(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let all = "$1 is not null and $2 is not null and $4 is not null and $5 is not null and $6 is not null";
    if !mapping.has_owner() {
        return all.to_owned();
    }
    format!(
        "{all} and exists (select 1 from {} r where r.name = $4 and r.holder = $5 and r.term = cast($6 as bigint))",
        writer.own("adopted_route")
    )
}

/// Which rows are meant, under a condition: those that look as they were read, pending and as often tried. Who sets a row
/// back to pending while it is on its way resets that number, and wins.
pub(super) fn meant(mapping: &Mapping, writer: &Writer<'_>, condition: &str) -> String {
    let state = match (mapping.claimed(), &mapping.attempts) {
        (Some(claimed), Some(path)) => {
            let fence = writer.of(&path.column);
            format!("{} and {fence} = cast(x.fence as integer)", claim::is_claimed(mapping, writer, claimed))
        }
        (_, Some(path)) => {
            format!("{} and (x.fence is null or {} = x.fence)", pending(mapping, writer), tried(writer, path))
        }
        _ => pending(mapping, writer),
    };
    format!("{} = {} and {state} and {condition}", writer.of(&mapping.row), writer.row_id(&mapping.row, "x.id"))
}

/// How often a row was tried, as text and as it stands there.
pub(super) fn tried(writer: &Writer<'_>, path: &ColumnPath) -> String {
    format!("coalesce({}, '0')", writer.text(path))
}

fn update(mapping: &Mapping, writer: &Writer<'_>, new: &Assignments, fields: &[&str]) -> String {
    format!(
        "update {} as t set {} from {} where {} returning {}",
        mapping.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", fields),
        meant(mapping, writer, &ours(mapping, writer)),
        returned(mapping, writer)
    )
}

pub(super) fn returned(mapping: &Mapping, writer: &Writer<'_>) -> String {
    match writer.dialect {
        Dialect::Postgres => writer.text(&ColumnPath::column(mapping.row.clone())),
        // SQLite knows no alias here.
        Dialect::Sqlite => format!("cast({} as text)", mapping.row.quoted()),
    }
}

/// What a row looks like once it is delivered.
pub(super) fn delivered(mapping: &Mapping, writer: &Writer<'_>) -> Assignments {
    let now = writer.now("$2");
    let mut new = Assignments::default();
    match &mapping.state {
        State::Words { path, done, .. } => new.set(path, New::Text(literal(done))),
        State::Stamp(column) => new.set(&ColumnPath::column(column.clone()), New::Moment(now.clone())),
        State::Flag(column) => new.set(&ColumnPath::column(column.clone()), New::Number("true".to_owned())),
        State::Presence => {}
    }
    if let Some(column) = &mapping.done_at {
        new.set(&ColumnPath::column(column.clone()), New::Moment(now));
    }
    new
}

fn done(mapping: &Mapping, writer: &Writer<'_>) -> String {
    if mapping.state == State::Presence {
        return format!(
            "delete from {} as t where {} in (select {} from {}) and {} returning {}",
            mapping.table.quoted(),
            writer.of(&mapping.row),
            writer.row_id(&mapping.row, "x.id"),
            writer.unpacked("$3", &["id"]),
            ours(mapping, writer),
            returned(mapping, writer)
        );
    }
    update(mapping, writer, &delivered(mapping, writer), &["id", "fence"])
}

/// What every failure writes: how often, and why.
fn failed(mapping: &Mapping) -> Assignments {
    let mut new = Assignments::default();
    // A claim in columns has counted itself.
    if let Some(path) = mapping.attempts.as_ref().filter(|_| mapping.claimed().is_none()) {
        new.set(path, New::Number("cast(x.attempts as integer)".to_owned()));
    }
    if let Some(path) = &mapping.error {
        new.set(path, New::Text("x.error".to_owned()));
    }
    new
}

pub(super) fn later(writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    match writer.dialect {
        Dialect::Postgres => format!("({now} + cast(x.after as float8) * interval '1 millisecond')"),
        Dialect::Sqlite => format!("({now} + cast(x.after as integer) * 1000)"),
    }
}

fn retry(mapping: &Mapping, writer: &Writer<'_>) -> Option<String> {
    let mut new = failed(mapping);
    if let Some(path) = &mapping.next_attempt {
        new.set(path, New::Moment(later(writer)));
    }
    if mapping.claimed().is_some()
        && let State::Words { path, pending, .. } = &mapping.state
    {
        new.set(path, New::Text(literal(pending)));
    }
    (!new.is_empty()).then(|| update(mapping, writer, &new, FAILED))
}

/// What a row looks like once it is given up.
pub(super) fn died(mapping: &Mapping, writer: &Writer<'_>) -> Assignments {
    let mut new = failed(mapping);
    match (&mapping.death, &mapping.state) {
        (Death::Word(word), State::Words { path, .. }) | (Death::AsDone, State::Words { path, done: word, .. }) => {
            new.set(path, New::Text(literal(word)));
        }
        (Death::AsDone, State::Stamp(column)) => {
            new.set(&ColumnPath::column(column.clone()), New::Moment(writer.now("$2")));
        }
        (Death::AsDone, State::Flag(column)) => {
            new.set(&ColumnPath::column(column.clone()), New::Number("true".to_owned()));
        }
        _ => {}
    }
    new
}

fn dead(mapping: &Mapping, writer: &Writer<'_>) -> Option<Mark> {
    let new = died(mapping, writer);
    (!new.is_empty()).then(|| Mark::new(update(mapping, writer, &new, FAILED)))
}

/// Writes what the side table learns, under a condition.
pub(super) fn park(mapping: &Mapping, writer: &Writer<'_>, condition: &str) -> String {
    let now = writer.now("$2");
    let due = format!("case when x.state = 'retrying' then {} end", later(writer));
    let most = if writer.dialect == Dialect::Postgres { "greatest" } else { "max" };
    format!(
        "insert into {} as s (mapping, row_id, event_id, key, state, due, attempts, code, error, since, excused, held) \
         select $1, x.id, x.event_id, x.key, x.state, {due}, cast(x.attempts as integer), x.code, x.error, {now}, \
         coalesce(cast(x.excused as integer), 0), coalesce(cast(x.held as integer), 0) \
         from {}, {} t where {} \
         on conflict (mapping, row_id) do update set state = excluded.state, due = excluded.due, attempts = excluded.attempts, \
         code = excluded.code, error = excluded.error, since = excluded.since, excused = {most}(s.excused, excluded.excused), \
         held = excluded.held",
        writer.own("sidecar"),
        writer.unpacked(
            "$3",
            &["id", "fence", "event_id", "key", "state", "after", "attempts", "code", "error", "excused", "held"]
        ),
        mapping.table.quoted(),
        meant(mapping, writer, condition),
    )
}

/// Forgets what the side table knows, under a condition.
pub(super) fn clear(writer: &Writer<'_>, condition: &str) -> String {
    let ids = format!("select x.id from {}", writer.unpacked("$3", &["id"]));
    let among = match writer.dialect {
        // As an array they are looked up one by one; a join would compare all with all.
        Dialect::Postgres => format!("= any (array({ids}))"),
        Dialect::Sqlite => format!("in ({ids})"),
    };
    let sidecar = writer.own("sidecar");
    format!("delete from {sidecar} where mapping = $1 and row_id {among} and {condition} returning row_id")
}

fn attempts(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let json = if writer.dialect == Dialect::Postgres { "x.handlers::jsonb" } else { "x.handlers" };
    format!(
        "insert into {} (mapping, row_id, attempt, at, outcome, code, error, took_ms, handlers) \
         select $1, x.id, cast(x.attempt as integer), {}, x.outcome, x.code, x.error, cast(x.took_ms as bigint), {json} \
         from {}, {} t where {}",
        writer.own("adopted_attempt"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "fence", "attempt", "outcome", "code", "error", "took_ms", "handlers"]),
        mapping.table.quoted(),
        meant(mapping, writer, &ours(mapping, writer)),
    )
}
