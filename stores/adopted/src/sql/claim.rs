//! Claims that relays share: rows locked while they are delivered, or rows that say so themselves.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::take::{Reads, in_order, order};
use super::{Writer, literal, made, meant};
use crate::executor::Dialect;
use crate::mapping::{Claimed, ColumnPath, Mapping, State};

/// Statements of claims in columns.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    /// Claims rows. PostgreSQL brings them as a read does; SQLite brings their ids. `$1` mapping, `$2` our clock, `$3` rows in
    /// hand, `$4` how many, `$5` how many of them may have failed before.
    pub(crate) claim: Arc<str>,
    /// The rows of these ids, as a read brings them: for SQLite. `$1` mapping, `$2` our clock, `$3` ids.
    pub(crate) claimed: Arc<str>,
    /// Renews claims. `$1` mapping, `$2` our clock, `$3` rows with `id` and `fence`. Brings those that are still ours.
    pub(crate) refresh: Arc<str>,
    /// Excuses claims that are about to be given back, as part of a settle. Fields: `id`, `fence`, `event_id`.
    pub(crate) excused: Arc<str>,
    /// Gives claims back, as part of a settle. Fields: `id`, `fence`.
    pub(crate) settled_back: Arc<str>,
}

impl Claims {
    /// Of rows that are fresh, and of those that have failed before.
    pub(super) fn new(
        mapping: &Mapping,
        writer: &Writer<'_>,
        (fresh, again): (&Reads, &Reads),
        claimed: &Claimed,
    ) -> Self {
        let picked = Picked::new(mapping, writer, (fresh, again));
        Self {
            claim: made(claim(mapping, writer, fresh, claimed, &picked)),
            claimed: made(by_id(mapping, writer, fresh)),
            refresh: made(update(mapping, writer, &stamped(claimed, writer), "$1 is not null and $2 is not null")),
            excused: made(excused(mapping, writer)),
            settled_back: made(update(mapping, writer, &unclaimed(mapping), &super::settle::ours(mapping, writer))),
        }
    }
}

/// The ids of the rows that are claimed next: some that have failed before, then fresh ones.
struct Picked {
    again: String,
    fresh: String,
}

impl Picked {
    fn new(mapping: &Mapping, writer: &Writer<'_>, (fresh, again): (&Reads, &Reads)) -> Self {
        let columns = vec![format!("{} as postroom_row", writer.of(&mapping.row))];
        let of = |reads: &Reads| Reads { columns: columns.clone(), conditions: reads.conditions.clone() };
        let again = super::take::again(mapping, writer, &of(again), "cast($5 as integer)");
        let taken = match writer.dialect {
            Dialect::Postgres => "again".to_owned(),
            Dialect::Sqlite => format!("({again})"),
        };
        let rest = format!("(cast($4 as integer) - (select count(*) from {taken}))");
        Self { again, fresh: super::take::read(mapping, writer, &of(fresh), &rest) }
    }

    /// As one query.
    fn rows(&self) -> String {
        format!("select * from ({}) union all select * from ({})", self.again, self.fresh)
    }
}

/// Counts a claim that comes to nothing, of rows that are given back: the column counts it too.
fn excused(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!(
        "insert into {} as s (mapping, row_id, event_id, state, excused, since) \
         select $1, x.id, x.event_id, 'retrying', 1, {} from {}, {} t where {} \
         on conflict (mapping, row_id) do update set excused = s.excused + 1",
        writer.own("sidecar"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "fence", "event_id"]),
        mapping.table.quoted(),
        meant(mapping, writer, &super::settle::ours(mapping, writer)),
    )
}

/// Whether a row may be claimed: it is pending, or its claim is over.
pub(super) fn claimable(mapping: &Mapping, writer: &Writer<'_>, now: &str) -> String {
    let pending = super::pending(mapping, writer);
    let Some(claimed) = mapping.claimed() else { return pending };
    format!("({pending} or {})", is_abandoned(mapping, writer, claimed, now))
}

/// Whether a row has a claim that is over: older than its lease or, since the clock was set back, further ahead than it.
fn is_abandoned(mapping: &Mapping, writer: &Writer<'_>, claimed: &Claimed, now: &str) -> String {
    let since = writer.moment(&ColumnPath::column(claimed.since.clone()));
    let lease = claimed.lease.as_micros().to_string();
    format!(
        "({} and ({} < {now} or {} > {now}))",
        is_claimed(mapping, writer, claimed),
        ends(writer, claimed),
        writer.before(&since, &literal(&lease))
    )
}

/// When a claim ends.
pub(super) fn ends(writer: &Writer<'_>, claimed: &Claimed) -> String {
    let (since, lease) = (writer.moment(&ColumnPath::column(claimed.since.clone())), claimed.lease.as_micros());
    match writer.dialect {
        Dialect::Postgres => format!("{since} + {lease} * interval '1 microsecond'"),
        Dialect::Sqlite => format!("({since}) + {lease}"),
    }
}

pub(super) fn is_claimed(mapping: &Mapping, writer: &Writer<'_>, claimed: &Claimed) -> String {
    match &mapping.state {
        State::Words { path, .. } => format!("{} = {}", writer.of(&path.column), literal(&claimed.word)),
        State::Stamp(_) | State::Flag(_) | State::Presence => "false".to_owned(),
    }
}

fn stamped(claimed: &Claimed, writer: &Writer<'_>) -> Assignments {
    let mut new = Assignments::default();
    new.set(&ColumnPath::column(claimed.since.clone()), New::Moment(writer.now("$2")));
    new
}

/// Pending again, as if it had not been claimed; how often it was claimed stays.
fn unclaimed(mapping: &Mapping) -> Assignments {
    let mut new = Assignments::default();
    if let State::Words { path, pending, .. } = &mapping.state {
        new.set(path, New::Text(literal(pending)));
    }
    new
}

fn claim(mapping: &Mapping, writer: &Writer<'_>, reads: &Reads, claimed: &Claimed, picked: &Picked) -> String {
    let mut new = stamped(claimed, writer);
    if let State::Words { path, .. } = &mapping.state {
        new.set(path, New::Text(literal(&claimed.word)));
    }
    if let Some(path) = &mapping.attempts {
        new.set(path, New::Number(format!("coalesce({}, 0) + 1", writer.of(&path.column))));
    }
    let (table, row) = (mapping.table.quoted(), writer.of(&mapping.row));
    match writer.dialect {
        Dialect::Postgres => {
            let columns: Vec<String> =
                reads.columns.iter().enumerate().map(|(n, column)| format!("{column} as c{n}")).collect();
            let paths: Vec<String> =
                order(mapping).iter().enumerate().map(|(n, name)| format!("{} as o{n}", writer.of(name))).collect();
            let names =
                |letter: char, count: usize| (0..count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(", ");
            let Picked { again, fresh } = picked;
            format!(
                "with again as materialized ({again}), fresh as materialized ({fresh}), \
                 picked as materialized (select * from again union all select * from fresh), \
                 taken as (update {table} as t set {} from picked where {row} = picked.postroom_row returning {}, {}) \
                 select {} from taken order by {}",
                new.text(writer),
                columns.join(", "),
                paths.join(", "),
                names('c', columns.len()),
                names('o', paths.len())
            )
        }
        Dialect::Sqlite => format!(
            "update {table} as t set {} where {} in (select p.postroom_row from ({}) p) returning cast({} as text)",
            new.text(writer),
            mapping.row.quoted(),
            picked.rows(),
            mapping.row.quoted()
        ),
    }
}

fn by_id(mapping: &Mapping, writer: &Writer<'_>, reads: &Reads) -> String {
    format!(
        "select {} from {} t where {} in {} and $1 is not null and $2 is not null order by {}",
        reads.columns.join(", "),
        mapping.table.quoted(),
        writer.text(&ColumnPath::column(mapping.row.clone())),
        writer.listed("$3"),
        in_order(mapping, writer)
    )
}

fn update(mapping: &Mapping, writer: &Writer<'_>, new: &Assignments, condition: &str) -> String {
    format!(
        "update {} as t set {} from {} where {} returning {}",
        mapping.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", &["id", "fence"]),
        meant(mapping, writer, condition),
        super::returned(mapping, writer)
    )
}
