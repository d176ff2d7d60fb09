//! Writing what became of rows.
//!
//! Each statement says which rows it means, that they are still as they were read, and that the table is still ours; what
//! somebody else changed meanwhile is left alone. Those that only tell of a row run before the row itself is marked.
//! `$1` layout, `$2` our clock, `$3` the rows as a JSON list, `$4` route, `$5` holder, `$6` term.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::columns::Columns;
use super::mark::{self, Mark, counted_apart};
use super::{Writer, claim, literal, made, moved, pending};
use crate::ground::Dialect;
use crate::layout::{Death, Layout, Place, State};

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
    /// What the side table knows of failures. Fields: `id`, `event_id`, `key`, `state`, `after`, `attempts`, `code`, `error`.
    pub(crate) aside: Arc<str>,
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
    pub(super) fn new(layout: &Layout, writer: &Writer<'_>, log: &Columns) -> Self {
        let ours = ours(layout, writer);
        let meant = meant(layout, writer, &ours);
        let (done, dead) = match &layout.log {
            Some(table) => {
                let moved = |new: &Assignments| moved::into_log(layout, writer, table, log, new, &meant);
                (moved(&delivered(layout, writer)), Some(moved(&died(layout, writer))))
            }
            None => (Mark::new(done(layout, writer)), dead(layout, writer)),
        };
        let all = |texts: Vec<String>| texts.into_iter().map(made).collect();
        Self {
            fence: layout.has_owner().then(|| made(fence(writer))),
            done: all(done.counted(layout, writer)),
            retry: retry(layout, writer).map(made),
            dead: all(dead.map(Mark::texts).unwrap_or_default()),
            aside: made(aside(layout, writer, &ours)),
            clear: made(clear(writer, &ours)),
            attempts: made(attempts(layout, writer)),
            count: all(counted_apart(layout, writer)),
            failed: made(mark::failed(layout, writer)),
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
pub(super) fn ours(layout: &Layout, writer: &Writer<'_>) -> String {
    let all = "$1 is not null and $2 is not null and $4 is not null and $5 is not null and $6 is not null";
    if !layout.has_owner() {
        return all.to_owned();
    }
    format!(
        "{all} and exists (select 1 from {} r where r.name = $4 and r.holder = $5 and r.term = cast($6 as bigint))",
        writer.own("adopted_route")
    )
}

/// Which rows are meant, under a condition: those that look as they were read, pending and as often tried. Who sets a row
/// back to pending while it is on its way resets that number, and wins.
pub(super) fn meant(layout: &Layout, writer: &Writer<'_>, condition: &str) -> String {
    let state = match (layout.claimed(), &layout.attempts) {
        (Some(claimed), Some(place)) => {
            let fence = writer.of(&place.column);
            format!("{} and {fence} = cast(x.fence as integer)", claim::is_claimed(layout, writer, claimed))
        }
        (_, Some(place)) => {
            format!("{} and (x.fence is null or {} = x.fence)", pending(layout, writer), tried(writer, place))
        }
        _ => pending(layout, writer),
    };
    format!("{} = {} and {state} and {condition}", writer.of(&layout.row), writer.row_id(&layout.row, "x.id"))
}

/// How often a row was tried, as text and as it stands there.
pub(super) fn tried(writer: &Writer<'_>, place: &Place) -> String {
    format!("coalesce({}, '0')", writer.text(place))
}

fn update(layout: &Layout, writer: &Writer<'_>, new: &Assignments, fields: &[&str]) -> String {
    format!(
        "update {} as t set {} from {} where {} returning {}",
        layout.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", fields),
        meant(layout, writer, &ours(layout, writer)),
        returned(layout, writer)
    )
}

pub(super) fn returned(layout: &Layout, writer: &Writer<'_>) -> String {
    match writer.dialect {
        Dialect::Postgres => writer.text(&Place::column(layout.row.clone())),
        // SQLite knows no alias here.
        Dialect::Sqlite => format!("cast({} as text)", layout.row.quoted()),
    }
}

/// What a row looks like once it is delivered.
pub(super) fn delivered(layout: &Layout, writer: &Writer<'_>) -> Assignments {
    let now = writer.now("$2");
    let mut new = Assignments::default();
    match &layout.state {
        State::Words { place, done, .. } => new.set(place, New::Text(literal(done))),
        State::Stamp(column) => new.set(&Place::column(column.clone()), New::Moment(now.clone())),
        State::Flag(column) => new.set(&Place::column(column.clone()), New::Number("true".to_owned())),
        State::Presence => {}
    }
    if let Some(column) = &layout.done_at {
        new.set(&Place::column(column.clone()), New::Moment(now));
    }
    new
}

fn done(layout: &Layout, writer: &Writer<'_>) -> String {
    if layout.state == State::Presence {
        return format!(
            "delete from {} as t where {} in (select {} from {}) and {} returning {}",
            layout.table.quoted(),
            writer.of(&layout.row),
            writer.row_id(&layout.row, "x.id"),
            writer.unpacked("$3", &["id"]),
            ours(layout, writer),
            returned(layout, writer)
        );
    }
    update(layout, writer, &delivered(layout, writer), &["id", "fence"])
}

/// What every failure writes: how often, and why.
fn failed(layout: &Layout) -> Assignments {
    let mut new = Assignments::default();
    // A claim in columns has counted itself.
    if let Some(place) = layout.attempts.as_ref().filter(|_| layout.claimed().is_none()) {
        new.set(place, New::Number("cast(x.attempts as integer)".to_owned()));
    }
    if let Some(place) = &layout.error {
        new.set(place, New::Text("x.error".to_owned()));
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

fn retry(layout: &Layout, writer: &Writer<'_>) -> Option<String> {
    let mut new = failed(layout);
    if let Some(place) = &layout.next_attempt {
        new.set(place, New::Moment(later(writer)));
    }
    if layout.claimed().is_some()
        && let State::Words { place, pending, .. } = &layout.state
    {
        new.set(place, New::Text(literal(pending)));
    }
    (!new.is_empty()).then(|| update(layout, writer, &new, FAILED))
}

/// What a row looks like once it is given up.
pub(super) fn died(layout: &Layout, writer: &Writer<'_>) -> Assignments {
    let mut new = failed(layout);
    match (&layout.death, &layout.state) {
        (Death::Word(word), State::Words { place, .. }) | (Death::AsDone, State::Words { place, done: word, .. }) => {
            new.set(place, New::Text(literal(word)));
        }
        (Death::AsDone, State::Stamp(column)) => {
            new.set(&Place::column(column.clone()), New::Moment(writer.now("$2")));
        }
        (Death::AsDone, State::Flag(column)) => {
            new.set(&Place::column(column.clone()), New::Number("true".to_owned()));
        }
        _ => {}
    }
    new
}

fn dead(layout: &Layout, writer: &Writer<'_>) -> Option<Mark> {
    let new = died(layout, writer);
    (!new.is_empty()).then(|| Mark::new(update(layout, writer, &new, FAILED)))
}

/// Writes what the side table learns, under a condition.
pub(super) fn aside(layout: &Layout, writer: &Writer<'_>, condition: &str) -> String {
    let now = writer.now("$2");
    let due = format!("case when x.state = 'retrying' then {} end", later(writer));
    // No claim up to this one, which ends with a verdict, has run out.
    let excused = if layout.claimed().is_some() { "coalesce(cast(x.fence as integer), 0)" } else { "0" };
    format!(
        "insert into {} (layout, row_id, event_id, key, state, due, attempts, code, error, since, excused) \
         select $1, x.id, x.event_id, x.key, x.state, {due}, cast(x.attempts as integer), x.code, x.error, {now}, {excused} \
         from {}, {} t where {} \
         on conflict (layout, row_id) do update set state = excluded.state, due = excluded.due, attempts = excluded.attempts, \
         code = excluded.code, error = excluded.error, since = excluded.since, excused = excluded.excused",
        writer.own("sidecar"),
        writer.unpacked("$3", &["id", "fence", "event_id", "key", "state", "after", "attempts", "code", "error"]),
        layout.table.quoted(),
        meant(layout, writer, condition),
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
    format!("delete from {sidecar} where layout = $1 and row_id {among} and {condition} returning row_id")
}

fn attempts(layout: &Layout, writer: &Writer<'_>) -> String {
    let json = if writer.dialect == Dialect::Postgres { "x.handlers::jsonb" } else { "x.handlers" };
    format!(
        "insert into {} (layout, row_id, attempt, at, outcome, code, error, took_ms, handlers) \
         select $1, x.id, cast(x.attempt as integer), {}, x.outcome, x.code, x.error, cast(x.took_ms as bigint), {json} \
         from {}, {} t where {}",
        writer.own("adopted_attempt"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "fence", "attempt", "outcome", "code", "error", "took_ms", "handlers"]),
        layout.table.quoted(),
        meant(layout, writer, &ours(layout, writer)),
    )
}
