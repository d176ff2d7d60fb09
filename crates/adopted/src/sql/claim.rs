//! Claims that relays share: rows locked while they are delivered, or rows that say so themselves.

use std::sync::Arc;

use super::assign::{Assignments, New};
use super::take::{Reads, in_order, order};
use super::{Writer, literal, made, meant};
use crate::ground::Dialect;
use crate::layout::{Claimed, Layout, Place, State};

/// Statements of claims in columns.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    /// Claims rows. PostgreSQL brings them as a read does; SQLite brings their ids. `$1` layout, `$2` our clock, `$3` rows in
    /// hand, `$4` how many.
    pub(crate) claim: Arc<str>,
    /// The rows of these ids, as a read brings them: for SQLite. `$1` layout, `$2` our clock, `$3` ids.
    pub(crate) claimed: Arc<str>,
    /// Renews claims. `$1` layout, `$2` our clock, `$3` rows with `id` and `fence`. Brings those that are still ours.
    pub(crate) refresh: Arc<str>,
    /// Gives claims back, as part of a settle. Fields: `id`, `fence`.
    pub(crate) settled_back: Arc<str>,
}

impl Claims {
    pub(super) fn new(layout: &Layout, writer: &Writer<'_>, reads: &Reads, claimed: &Claimed) -> Self {
        Self {
            claim: made(claim(layout, writer, reads, claimed)),
            claimed: made(by_id(layout, writer, reads)),
            refresh: made(update(layout, writer, &stamped(claimed, writer), "$1 is not null and $2 is not null")),
            settled_back: made(update(layout, writer, &unclaimed(layout), &super::settle::ours(layout, writer))),
        }
    }
}

/// Whether a row may be claimed: it is pending, or its claim is too old.
pub(super) fn claimable(layout: &Layout, writer: &Writer<'_>, now: &str) -> String {
    let pending = super::pending(layout, writer);
    let Some(claimed) = layout.claimed() else { return pending };
    format!("({pending} or ({} and {} < {now}))", is_claimed(layout, writer, claimed), ends(writer, claimed))
}

/// When a claim ends.
pub(super) fn ends(writer: &Writer<'_>, claimed: &Claimed) -> String {
    let (since, lease) = (writer.moment(&Place::column(claimed.since.clone())), claimed.lease.as_micros());
    match writer.dialect {
        Dialect::Postgres => format!("{since} + {lease} * interval '1 microsecond'"),
        Dialect::Sqlite => format!("({since}) + {lease}"),
    }
}

pub(super) fn is_claimed(layout: &Layout, writer: &Writer<'_>, claimed: &Claimed) -> String {
    match &layout.state {
        State::Words { place, .. } => format!("{} = {}", writer.of(&place.column), literal(&claimed.word)),
        State::Stamp(_) | State::Flag(_) | State::Presence => "false".to_owned(),
    }
}

fn stamped(claimed: &Claimed, writer: &Writer<'_>) -> Assignments {
    let mut new = Assignments::default();
    new.set(&Place::column(claimed.since.clone()), New::Moment(writer.now("$2")));
    new
}

/// Pending again, as if it had not been claimed; how often it was claimed stays.
fn unclaimed(layout: &Layout) -> Assignments {
    let mut new = Assignments::default();
    if let State::Words { place, pending, .. } = &layout.state {
        new.set(place, New::Text(literal(pending)));
    }
    new
}

fn claim(layout: &Layout, writer: &Writer<'_>, reads: &Reads, claimed: &Claimed) -> String {
    let mut new = stamped(claimed, writer);
    if let State::Words { place, .. } = &layout.state {
        new.set(place, New::Text(literal(&claimed.word)));
    }
    if let Some(place) = &layout.attempts {
        new.set(place, New::Number(format!("coalesce({}, 0) + 1", writer.of(&place.column))));
    }
    let (table, row) = (layout.table.quoted(), writer.of(&layout.row));
    let picked = format!(
        "select {row} as postroom_row from {table} t where {} order by {} limit cast($4 as integer)",
        reads.conditions.join(" and "),
        in_order(layout, writer)
    );
    match writer.dialect {
        Dialect::Postgres => {
            let columns: Vec<String> =
                reads.columns.iter().enumerate().map(|(n, column)| format!("{column} as c{n}")).collect();
            let places: Vec<String> =
                order(layout).iter().enumerate().map(|(n, name)| format!("{} as o{n}", writer.of(name))).collect();
            let names =
                |letter: char, count: usize| (0..count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(", ");
            format!(
                "with picked as materialized ({picked} for update skip locked), \
                 taken as (update {table} as t set {} from picked where {row} = picked.postroom_row returning {}, {}) \
                 select {} from taken order by {}",
                new.text(writer),
                columns.join(", "),
                places.join(", "),
                names('c', columns.len()),
                names('o', places.len())
            )
        }
        Dialect::Sqlite => format!(
            "update {table} as t set {} where {} in ({picked}) returning cast({} as text)",
            new.text(writer),
            layout.row.quoted(),
            layout.row.quoted()
        ),
    }
}

fn by_id(layout: &Layout, writer: &Writer<'_>, reads: &Reads) -> String {
    format!(
        "select {} from {} t where {} in {} and $1 is not null and $2 is not null order by {}",
        reads.columns.join(", "),
        layout.table.quoted(),
        writer.text(&Place::column(layout.row.clone())),
        writer.listed("$3"),
        in_order(layout, writer)
    )
}

fn update(layout: &Layout, writer: &Writer<'_>, new: &Assignments, condition: &str) -> String {
    format!(
        "update {} as t set {} from {} where {} returning {}",
        layout.table.quoted(),
        new.text(writer),
        writer.unpacked("$3", &["id", "fence"]),
        meant(layout, writer, condition),
        super::returned(layout, writer)
    )
}
