//! Writing what became of rows.
//!
//! Each statement says which rows it means, that they are still pending, and that the table is still ours; what somebody
//! else changed meanwhile is left alone. `$1` layout, `$2` our clock, `$3` the rows as a JSON list, `$4` route, `$5` holder,
//! `$6` term.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::{Writer, literal, made, pending};
use crate::ground::Dialect;
use crate::layout::{Death, Layout, Place, State};

/// Statements that settle. Those on the adopted table bring the ids of the rows that agreed.
#[derive(Debug, Clone)]
pub(crate) struct Settles {
    /// Whether the table is ours: one row, or none. `$1` route, `$2` holder, `$3` term.
    pub(crate) fence: Arc<str>,
    /// Delivered. Fields: `id`.
    pub(crate) done: Arc<str>,
    /// Failed, to be tried again. Fields: `id`, `attempts`, `after` in milliseconds, `error`.
    pub(crate) retry: Option<Arc<str>>,
    /// Given up. Fields as for `retry`.
    pub(crate) dead: Option<Arc<str>>,
    /// What the side table knows of failures. Fields: `id`, `event_id`, `key`, `state`, `after`, `attempts`, `code`, `error`.
    pub(crate) aside: Arc<str>,
    /// Forgets what the side table knows. Fields: `id`.
    pub(crate) clear: Arc<str>,
    /// Failed tries. Fields: `id`, `attempt`, `outcome`, `code`, `error`, `took_ms`, `handlers`.
    pub(crate) attempts: Arc<str>,
    /// Counts. Fields: `delivered`, `retried`, `dead`.
    pub(crate) count: [Arc<str>; 2],
}

/// What each field of a list is called.
const FAILED: &[&str] = &["id", "attempts", "after", "error"];

impl Settles {
    pub(super) fn new(layout: &Layout, writer: &Writer<'_>) -> Self {
        Self {
            fence: made(fence(writer)),
            done: made(done(layout, writer)),
            retry: retry(layout, writer).map(made),
            dead: dead(layout, writer).map(made),
            aside: made(aside(writer)),
            clear: made(clear(writer)),
            attempts: made(attempts(writer)),
            count: count(writer).map(made),
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

/// That the table is ours, inside another statement.
fn ours(writer: &Writer<'_>) -> String {
    let all = "$1 is not null and $2 is not null and $4 is not null and $5 is not null and $6 is not null";
    format!(
        "{all} and exists (select 1 from {} r where r.name = $4 and r.holder = $5 and r.term = cast($6 as bigint))",
        writer.own("adopted_route")
    )
}

/// Which rows are meant.
pub(super) fn meant(layout: &Layout, writer: &Writer<'_>) -> String {
    format!(
        "t.{} = {} and {} and {}",
        layout.row.quoted(),
        writer.row_id(&layout.row, "x.id"),
        pending(layout, writer),
        ours(writer)
    )
}

fn update(layout: &Layout, writer: &Writer<'_>, new: &Assignments, fields: &[&str]) -> String {
    format!(
        "update {} as t set {} from {} where {} returning {}",
        layout.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", fields),
        meant(layout, writer),
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
            "delete from {} as t where t.{} in (select {} from {}) and {} returning {}",
            layout.table.quoted(),
            layout.row.quoted(),
            writer.row_id(&layout.row, "x.id"),
            writer.unpacked("$3", &["id"]),
            ours(writer),
            returned(layout, writer)
        );
    }
    update(layout, writer, &delivered(layout, writer), &["id"])
}

/// What every failure writes: how often, and why.
fn failed(layout: &Layout) -> Assignments {
    let mut new = Assignments::default();
    if let Some(place) = &layout.attempts {
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

fn dead(layout: &Layout, writer: &Writer<'_>) -> Option<String> {
    let new = died(layout, writer);
    (!new.is_empty()).then(|| update(layout, writer, &new, FAILED))
}

fn aside(writer: &Writer<'_>) -> String {
    put_aside(writer, &ours(writer))
}

/// Writes what the side table learns, under a condition.
pub(super) fn put_aside(writer: &Writer<'_>, condition: &str) -> String {
    let now = writer.now("$2");
    let due = format!("case when x.state = 'retrying' then {} end", later(writer));
    format!(
        "insert into {} (layout, row_id, event_id, key, state, due, attempts, code, error, since) \
         select $1, x.id, x.event_id, x.key, x.state, {due}, cast(x.attempts as integer), x.code, x.error, {now} \
         from {} where {condition} \
         on conflict (layout, row_id) do update set state = excluded.state, due = excluded.due, attempts = excluded.attempts, \
         code = excluded.code, error = excluded.error, since = excluded.since",
        writer.own("sidecar"),
        writer.unpacked("$3", &["id", "event_id", "key", "state", "after", "attempts", "code", "error"]),
    )
}

fn clear(writer: &Writer<'_>) -> String {
    format!(
        "delete from {} where layout = $1 and row_id in (select x.id from {}) returning row_id",
        writer.own("sidecar"),
        writer.unpacked("$2", &["id"])
    )
}

fn attempts(writer: &Writer<'_>) -> String {
    let json = if writer.dialect == Dialect::Postgres { "x.handlers::jsonb" } else { "x.handlers" };
    format!(
        "insert into {} (layout, row_id, attempt, at, outcome, code, error, took_ms, handlers) \
         select $1, x.id, cast(x.attempt as integer), {}, x.outcome, x.code, x.error, cast(x.took_ms as bigint), {json} from {}",
        writer.own("adopted_attempt"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "attempt", "outcome", "code", "error", "took_ms", "handlers"])
    )
}

/// `$1` route, `$2` our clock, `$3` delivered, `$4` retried, `$5` dead.
fn count(writer: &Writer<'_>) -> [String; 2] {
    let minute = match writer.dialect {
        Dialect::Postgres => "date_trunc('minute', statement_timestamp())".to_owned(),
        Dialect::Sqlite => "cast($2 as integer) / 60000000 * 60000000".to_owned(),
    };
    let total = format!(
        "update {} set delivered = delivered + cast($2 as bigint) where name = $1",
        writer.own("adopted_route")
    );
    let stat = format!(
        "insert into {stat} as s (route, minute, delivered, retried, dead) \
         select $1, {minute}, cast($3 as bigint), cast($4 as bigint), cast($5 as bigint) where $2 is not null \
         on conflict (route, minute) do update set delivered = s.delivered + excluded.delivered, \
         retried = s.retried + excluded.retried, dead = s.dead + excluded.dead",
        stat = writer.own("adopted_stat")
    );
    [total, stat]
}
