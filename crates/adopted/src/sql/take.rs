//! Reading rows that are due.

use std::sync::Arc;

use super::claim::{self, Claims, claimable};
use super::inside::{beside, or_beside};
use super::{Writer, made, not_aside, open, pending};
use crate::layout::{Claim, Layout, Name, Place};

/// Columns of a read before those of the event: the row's id, its failed tries, the same as the side table counts them where
/// the row does not, its place in the order.
pub(crate) const READ_FIXED: usize = 4;

/// Statements that read.
#[derive(Debug, Clone)]
pub(crate) struct Takes {
    /// Due rows from the front. `$1` layout, `$2` our clock, `$3` rows in hand, `$4` how many.
    pub(crate) first: Arc<str>,
    /// The same behind a place in the order: `$5`, a JSON list.
    pub(crate) behind: Arc<str>,
    /// In how many microseconds the next row comes, if one does, and whether something is to be tried again. `$1` layout,
    /// `$2` our clock, `$3` rows in hand.
    pub(crate) waiting: Arc<str>,
    /// Whether there is a due row at all. Values as for `first`.
    pub(crate) any: Arc<str>,
    /// Claims in columns, where rows are claimed so.
    pub(crate) claims: Option<Claims>,
}

/// What a read brings, and of which rows.
pub(super) struct Reads {
    pub(super) columns: Vec<String>,
    pub(super) conditions: Vec<String>,
}

impl Takes {
    /// `blocks` says whether a row that waits for another try keeps its key waiting.
    pub(crate) fn new(layout: &Layout, writer: &Writer<'_>, blocks: bool) -> Self {
        let reads = reads(layout, writer, blocks.then_some(Blocked::UntilDue));
        let behind = self::reads(layout, writer, blocks.then_some(Blocked::UntilTaken));
        Self {
            first: made(read(layout, writer, &reads, false)),
            behind: made(read(layout, writer, &behind, true)),
            waiting: made(waiting(layout, writer)),
            any: made(any(layout, &reads)),
            claims: layout.claimed().map(|claimed| Claims::new(layout, writer, &reads, claimed)),
        }
    }
}

/// For how long a failed row keeps its key waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blocked {
    /// A read from the front meets it first as soon as it is due.
    UntilDue,
    /// A read that began behind it does not.
    UntilTaken,
}

fn reads(layout: &Layout, writer: &Writer<'_>, blocked: Option<Blocked>) -> Reads {
    let row = Place::column(layout.row.clone());
    let row_text = writer.text(&row);
    let nothing = || "cast(null as text)".to_owned();
    let counted = beside(layout, writer, "cast(s.attempts as text)");
    let (attempts, counted) = match &layout.attempts {
        Some(place) => (super::settle::tried(writer, place), or_beside(layout, writer, place, nothing(), &counted)),
        None => (nothing(), counted),
    };
    let mut columns = vec![row_text.clone(), attempts, counted, place_in_order(layout, writer)];
    columns.extend(event_columns(layout, writer));
    let now = writer.now("$2");
    let mut conditions = vec![claimable(layout, writer, &now), due(layout, writer, &now, &row_text)];
    conditions.extend(not_aside(layout, writer, "$1"));
    conditions.push(format!("{row_text} not in {}", writer.listed("$3")));
    let blocked = layout.order_key().zip(blocked);
    conditions.extend(blocked.map(|(key, blocked)| not_blocked(layout, writer, key, blocked)));
    Reads { columns, conditions }
}

fn read(layout: &Layout, writer: &Writer<'_>, reads: &Reads, behind: bool) -> String {
    let mut conditions = reads.conditions.clone();
    if behind {
        conditions.push(after(layout, writer));
    }
    let lock = if layout.claim == Claim::RowLocks { " for update of t skip locked" } else { "" };
    format!(
        "select {} from {} t where {} order by {} limit cast($4 as integer){lock}",
        reads.columns.join(", "),
        layout.table.quoted(),
        conditions.join(" and "),
        in_order(layout, writer)
    )
}

fn any(layout: &Layout, reads: &Reads) -> String {
    format!(
        "select 'yes' from {} t where {} and $4 is not null limit 1",
        layout.table.quoted(),
        reads.conditions.join(" and ")
    )
}

/// The columns of the order, the row's own last.
pub(super) fn order(layout: &Layout) -> Vec<Name> {
    let mut names = layout.order.clone();
    if !names.contains(&layout.row) {
        names.push(layout.row.clone());
    }
    names
}

pub(super) fn in_order(layout: &Layout, writer: &Writer<'_>) -> String {
    order(layout).iter().map(|name| writer.of(name)).collect::<Vec<_>>().join(", ")
}

/// Where a row stands in the order, as a JSON list of texts.
fn place_in_order(layout: &Layout, writer: &Writer<'_>) -> String {
    match writer.dialect {
        crate::Dialect::Postgres => {
            let texts: Vec<String> = order(layout).iter().map(|name| format!("{}::text", writer.of(name))).collect();
            format!("jsonb_build_array({})::text", texts.join(", "))
        }
        crate::Dialect::Sqlite => format!("json_array({})", in_order(layout, writer)),
    }
}

/// Whether a row stands behind the place `$5`.
fn after(layout: &Layout, writer: &Writer<'_>) -> String {
    let values: Vec<String> = order(layout)
        .iter()
        .enumerate()
        .map(|(n, name)| match writer.dialect {
            crate::Dialect::Postgres => writer.row_id(name, &format!("($5::jsonb ->> {n})")),
            crate::Dialect::Sqlite => format!("json_extract($5, '$[{n}]')"),
        })
        .collect();
    format!("({}) > ({})", in_order(layout, writer), values.join(", "))
}

/// Whether a row's time has come.
fn due(layout: &Layout, writer: &Writer<'_>, now: &str, row: &str) -> String {
    match &layout.next_attempt {
        Some(place) => {
            let moment = next_attempt(layout, writer, place);
            // Bare where it can be, so that an index serves it.
            let never_null =
                place.as_column().and_then(|name| writer.columns.get(name)).is_some_and(|column| !column.nullable);
            if never_null { format!("{moment} <= {now}") } else { format!("({moment} is null or {moment} <= {now})") }
        }
        None => writer.nothing_aside("$1", &format!("s.row_id = {row} and s.due > {now}")),
    }
}

/// When a row is tried next.
fn next_attempt(layout: &Layout, writer: &Writer<'_>, place: &Place) -> String {
    or_beside(layout, writer, place, writer.moment(place), &beside(layout, writer, "s.due"))
}

/// That no failed row of the key keeps the others waiting. One that is only scheduled for later has not failed.
fn not_blocked(layout: &Layout, writer: &Writer<'_>, key: &Place, blocked: Blocked) -> String {
    let (head, now) = (writer.called("b"), writer.now("$2"));
    // What the side table remembers of rows that somebody else has finished or deleted counts no more.
    let is_head =
        format!("{} = {} and {}", head.of(&layout.row), writer.row_id(&layout.row, "s.row_id"), pending(layout, &head));
    let head_is = |more: &str| format!("exists (select 1 from {} b where {is_head}{more})", layout.table.quoted());
    let waits = match (blocked, &layout.next_attempt) {
        (Blocked::UntilTaken, _) => format!("s.row_id not in {} and {}", writer.listed("$3"), head_is("")),
        (Blocked::UntilDue, Some(place)) => head_is(&format!(" and {} > {now}", next_attempt(layout, &head, place))),
        (Blocked::UntilDue, None) => format!("s.due > {now} and {}", head_is("")),
    };
    let of_the_key = format!("s.key = {} and s.due is not null and s.blocks and {waits}", writer.text(key));
    writer.nothing_aside("$1", &of_the_key)
}

fn waiting(layout: &Layout, writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    let (moment, from, condition) = match &layout.next_attempt {
        Some(place) => (
            next_attempt(layout, writer, place),
            format!("{} t", layout.table.quoted()),
            format!("$1 is not null and {}", open(layout, writer)),
        ),
        None => ("s.due".to_owned(), format!("{} s", writer.own("sidecar")), "s.layout = $1".to_owned()),
    };
    let retried = format!(
        "select {moment} as at from {from} where {condition} and $2 is not null and {moment} > {now} order by {moment} limit 1"
    );
    // What others have claimed may become anybody's.
    let given_up = layout.claimed().map(|claimed| {
        format!(
            "union all select min({}) as at from {} t where {} and {} not in {}",
            claim::ends(writer, claimed),
            layout.table.quoted(),
            claim::is_claimed(layout, writer, claimed),
            writer.text(&Place::column(layout.row.clone())),
            writer.listed("$3")
        )
    });
    let again = if given_up.is_some() {
        "min(x.at) is not null".to_owned()
    } else {
        format!("exists (select 1 from {} s where s.layout = $1 and s.due > {now})", writer.own("sidecar"))
    };
    format!(
        "select {}, case when {again} then 'yes' end from (select at from ({retried}) r {}) x where $3 is not null",
        writer.until("min(x.at)", &now),
        given_up.unwrap_or_default()
    )
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
