//! Reading rows that are due.

use std::sync::Arc;

use super::claim::{self, Claims, claimable};
use super::inside::{beside, or_beside};
use super::{Writer, made, not_aside, open, order_key, pending};
use crate::ground::Dialect;
use crate::layout::{Claim, Layout, Name, Place};

/// Columns of a read before those of the event: the row's id, its failed tries, the same as the side table counts them where
/// the row does not, its place in the order, how many claims of it count as no try.
pub(crate) const READ_FIXED: usize = 5;

/// Statements that read.
#[derive(Debug, Clone)]
pub(crate) struct Takes {
    /// Due rows from the front; where relays share the table, only those that are fresh. `$1` layout, `$2` our clock, `$3` rows
    /// in hand, `$4` how many.
    pub(crate) first: Arc<str>,
    /// The same behind a place in the order: `$5`, a JSON list. `$6` route, `$7` how often its keys had been let go on when the
    /// walk began: brings nothing when they were since.
    pub(crate) behind: Arc<str>,
    /// Due rows from the front that have not failed before, and behind which no key waits. Values as for `first`.
    pub(crate) fresh: Arc<str>,
    /// Whether there is one of those that does not stand behind the place `$5`. Values as for `first`.
    pub(crate) late: Arc<str>,
    /// Due rows that have failed before, where relays share the table. Values as for `first`.
    pub(crate) again: Arc<str>,
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
        let now = writer.now("$2");
        let of = |blocked: Until| reads(layout, writer, blocks.then_some(blocked));
        let any = made(any(layout, &of(Until::Due)));
        let (mut first, mut behind, mut fresh) = (of(Until::Due), of(Until::SeenAnew), of(Until::Taken));
        let row = writer.text(&Place::column(layout.row.clone()));
        fresh.conditions.push(writer.nothing_aside("$1", &format!("s.row_id = {row} and s.due is not null")));
        if !layout.has_owner() {
            // What has failed is read by itself. Somebody may have moved the time of its next try: then it counts as fresh.
            let failed = writer.nothing_aside("$1", &format!("s.row_id = {row} and s.due <= {now}"));
            first.conditions.push(failed.clone());
            behind.conditions.push(failed);
        }
        behind.conditions.push(format!("{} > {}", place(layout, writer), given_place(layout, writer)));
        behind.conditions.push(format!(
            "exists (select 1 from {} r where r.name = $6 and r.unblocked = cast($7 as bigint))",
            writer.own("adopted_route")
        ));
        let passed = format!("{} <= {}", place(layout, writer), given_place(layout, writer));
        let late = Reads { columns: Vec::new(), conditions: [&fresh.conditions[..], &[passed]].concat() };
        let again = of(Until::Due);
        let limit = "cast($4 as integer)";
        Self {
            first: made(read(layout, writer, &first, limit)),
            behind: made(read(layout, writer, &behind, limit)),
            fresh: made(read(layout, writer, &fresh, limit)),
            late: made(self::any(layout, &late)),
            again: made(self::again(layout, writer, &again, limit)),
            waiting: made(waiting(layout, writer)),
            any,
            claims: layout.claimed().map(|claimed| Claims::new(layout, writer, (&first, &again), claimed)),
        }
    }
}

/// For how long a failed row keeps its key waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// A read from the front that brings failed rows too meets it first as soon as it is due.
    Due,
    /// One that does not bring failed rows meets it never.
    Taken,
    /// Nor does one that began behind it. And it has walked past rows of the key: it may not bring later ones, though
    /// somebody else has finished the failed one meanwhile.
    SeenAnew,
}

fn reads(layout: &Layout, writer: &Writer<'_>, blocked: Option<Until>) -> Reads {
    let row = Place::column(layout.row.clone());
    let row_text = writer.text(&row);
    let nothing = || "cast(null as text)".to_owned();
    let counted = beside(layout, writer, "cast(s.attempts as text)");
    let (attempts, counted) = match &layout.attempts {
        // The column counts claims.
        Some(place) if layout.claimed().is_some() => {
            (super::settle::tried(writer, place), format!("coalesce({counted}, '0')"))
        }
        Some(place) => (super::settle::tried(writer, place), or_beside(layout, writer, place, nothing(), &counted)),
        None => (nothing(), counted),
    };
    let excused = layout.claimed().map(|_| beside(layout, writer, "cast(s.excused as text)"));
    let excused = excused.unwrap_or_else(nothing);
    let mut columns = vec![row_text.clone(), attempts, counted, place_in_order(layout, writer), excused];
    columns.extend(event_columns(layout, writer));
    let now = writer.now("$2");
    let mut conditions = vec![claimable(layout, writer, &now), due(layout, writer, &now, &row_text)];
    conditions.extend(not_aside(layout, writer, "$1"));
    conditions.push(format!("{row_text} not in {}", writer.listed("$3")));
    let blocked = order_key(layout, writer).zip(blocked);
    conditions.extend(blocked.map(|(key, blocked)| not_blocked(layout, writer, &key, blocked)));
    Reads { columns, conditions }
}

pub(super) fn read(layout: &Layout, writer: &Writer<'_>, reads: &Reads, limit: &str) -> String {
    format!(
        "select {} from {} t where {} order by {} limit {limit}{}",
        reads.columns.join(", "),
        layout.table.quoted(),
        reads.conditions.join(" and "),
        in_order(layout, writer),
        lock(layout, writer)
    )
}

/// Rows that have failed and are due again, those first that have been for longest.
pub(super) fn again(layout: &Layout, writer: &Writer<'_>, reads: &Reads, limit: &str) -> String {
    format!(
        "select {} from {} s join {} t on {} = {} where s.layout = $1 and s.due <= {} and {} order by s.due limit {limit}{}",
        reads.columns.join(", "),
        writer.own("sidecar"),
        layout.table.quoted(),
        writer.of(&layout.row),
        writer.fitting(&layout.row, "s.row_id"),
        writer.now("$2"),
        reads.conditions.join(" and "),
        lock(layout, writer)
    )
}

/// What a read that takes rows for itself ends with. SQLite has one writer at a time.
fn lock(layout: &Layout, writer: &Writer<'_>) -> &'static str {
    match (&layout.claim, writer.dialect) {
        (Claim::Lease, _) | (_, Dialect::Sqlite) => "",
        (Claim::RowLocks | Claim::Columns(_), Dialect::Postgres) => " for update of t skip locked",
    }
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
        Dialect::Postgres => {
            let texts: Vec<String> = order(layout).iter().map(|name| format!("{}::text", writer.of(name))).collect();
            format!("jsonb_build_array({})::text", texts.join(", "))
        }
        Dialect::Sqlite => format!("json_array({})", in_order(layout, writer)),
    }
}

/// Where a row stands in the order, to be compared.
fn place(layout: &Layout, writer: &Writer<'_>) -> String {
    format!("({})", in_order(layout, writer))
}

/// The place `$5`, to be compared.
fn given_place(layout: &Layout, writer: &Writer<'_>) -> String {
    let values: Vec<String> = order(layout)
        .iter()
        .enumerate()
        .map(|(n, name)| match writer.dialect {
            Dialect::Postgres => writer.row_id(name, &format!("($5::jsonb ->> {n})")),
            Dialect::Sqlite => format!("json_extract($5, '$[{n}]')"),
        })
        .collect();
    format!("({})", values.join(", "))
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
fn not_blocked(layout: &Layout, writer: &Writer<'_>, key: &str, blocked: Until) -> String {
    let (head, now) = (writer.called("b"), writer.now("$2"));
    // What the side table remembers of rows that somebody else has finished or deleted counts no more.
    let is_head =
        format!("{} = {} and {}", head.of(&layout.row), writer.row_id(&layout.row, "s.row_id"), pending(layout, &head));
    let head_is = |more: &str| format!("exists (select 1 from {} b where {is_head}{more})", layout.table.quoted());
    let not_in_hand = format!("s.row_id not in {}", writer.listed("$3"));
    let waits = match (blocked, &layout.next_attempt) {
        (Until::SeenAnew, _) => not_in_hand,
        (Until::Taken, _) => format!("{not_in_hand} and {}", head_is("")),
        (Until::Due, Some(place)) => head_is(&format!(" and {} > {now}", next_attempt(layout, &head, place))),
        (Until::Due, None) => format!("s.due > {now} and {}", head_is("")),
    };
    writer.nothing_aside("$1", &format!("s.key = {key} and s.due is not null and s.blocks and {waits}"))
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
