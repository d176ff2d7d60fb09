//! Reading rows that are due.

use std::sync::Arc;

use postroom_core::{HEADER_TEXT_MAX, Limits};

use super::claim::{self, Claims, claimable};
use super::inside::{beside, or_beside};
use super::{Writer, made, not_parked, open, order_key, pending};
use crate::executor::Dialect;
use crate::mapping::{Claim, ColumnPath, Mapping, Name};

/// Columns of a read before those of the event: the row's id, its failed tries, the same as the side table counts them where
/// the row does not, its column in the order, how many claims of it count as no try.
pub(crate) const READ_FIXED: usize = 5;

/// Statements that read.
#[derive(Debug, Clone)]
pub(crate) struct Takes {
    /// Due rows from the front; where relays share the table, only those that are fresh. `$1` mapping, `$2` our clock, `$3` rows
    /// in hand, `$4` how many.
    pub(crate) first: Arc<str>,
    /// The same behind a column in the order: `$5`, a JSON list. `$6` route, `$7` how often its keys had been let go on when the
    /// walk began: brings nothing when they were since.
    pub(crate) behind: Arc<str>,
    /// Due rows from the front that have not failed before, and behind which no key waits. Values as for `first`.
    pub(crate) fresh: Arc<str>,
    /// Whether there is one of those that does not stand behind the column `$5`. Values as for `first`.
    pub(crate) late: Arc<str>,
    /// Due rows that have failed before, where relays share the table. Values as for `first`.
    pub(crate) again: Arc<str>,
    /// In how many microseconds the next row comes, if one does, and whether something is to be tried again. `$1` mapping,
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
    /// `blocks` says whether a row that waits for another try keeps its key waiting. Of what is over the limits, only the length
    /// is read.
    pub(crate) fn new(mapping: &Mapping, writer: &Writer<'_>, limits: Limits, blocks: bool) -> Self {
        let now = writer.now("$2");
        let of = |blocked: Until| reads(mapping, writer, limits, blocks.then_some(blocked));
        let any = made(any(mapping, &of(Until::Due)));
        let (mut first, mut behind, mut fresh) = (of(Until::Due), of(Until::SeenAnew), of(Until::Taken));
        let row = writer.text(&ColumnPath::column(mapping.row.clone()));
        fresh.conditions.push(writer.nothing_parked("$1", &format!("s.row_id = {row} and s.due is not null")));
        if !mapping.has_owner() {
            // What has failed is read by itself. Somebody may have moved the time of its next try: then it counts as fresh.
            let failed = writer.nothing_parked("$1", &format!("s.row_id = {row} and s.due <= {now}"));
            first.conditions.push(failed.clone());
            behind.conditions.push(failed);
        }
        behind.conditions.push(format!("{} > {}", cursor(mapping, writer), given_cursor(mapping, writer)));
        behind.conditions.push(format!(
            "exists (select 1 from {} r where r.name = $6 and r.unblocked = cast($7 as bigint))",
            writer.own("adopted_route")
        ));
        let passed = format!("{} <= {}", cursor(mapping, writer), given_cursor(mapping, writer));
        let late = Reads { columns: Vec::new(), conditions: [&fresh.conditions[..], &[passed]].concat() };
        let again = of(Until::Due);
        let limit = "cast($4 as integer)";
        Self {
            first: made(read(mapping, writer, &first, limit)),
            behind: made(read(mapping, writer, &behind, limit)),
            fresh: made(read(mapping, writer, &fresh, limit)),
            late: made(self::any(mapping, &late)),
            again: made(self::again(mapping, writer, &again, limit)),
            waiting: made(waiting(mapping, writer)),
            any,
            claims: mapping.claimed().map(|claimed| Claims::new(mapping, writer, (&first, &again), claimed)),
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

fn reads(mapping: &Mapping, writer: &Writer<'_>, limits: Limits, blocked: Option<Until>) -> Reads {
    let row = ColumnPath::column(mapping.row.clone());
    let row_text = writer.text(&row);
    let nothing = || "cast(null as text)".to_owned();
    let counted = beside(mapping, writer, "cast(s.attempts as text)");
    let (attempts, counted) = match &mapping.attempts {
        // The column counts claims.
        Some(path) if mapping.claimed().is_some() => {
            (super::settle::tried(writer, path), format!("coalesce({counted}, '0')"))
        }
        Some(path) => (super::settle::tried(writer, path), or_beside(mapping, writer, path, nothing(), &counted)),
        None => (nothing(), counted),
    };
    let excused = mapping.claimed().map(|_| beside(mapping, writer, "cast(s.excused as text)"));
    let excused = excused.unwrap_or_else(nothing);
    let mut columns = vec![row_text.clone(), attempts, counted, place_in_order(mapping, writer), excused];
    columns.extend(event_columns(mapping, writer, limits));
    let now = writer.now("$2");
    let mut conditions = vec![claimable(mapping, writer, &now), due(mapping, writer, &now, &row_text)];
    conditions.extend(not_parked(mapping, writer, "$1"));
    conditions.push(format!("{row_text} not in {}", writer.listed("$3")));
    let blocked = order_key(mapping, writer).zip(blocked);
    conditions.extend(blocked.map(|(key, blocked)| not_blocked(mapping, writer, &key, blocked)));
    Reads { columns, conditions }
}

pub(super) fn read(mapping: &Mapping, writer: &Writer<'_>, reads: &Reads, limit: &str) -> String {
    format!(
        "select {} from {} t where {} order by {} limit {limit}{}",
        reads.columns.join(", "),
        mapping.table.quoted(),
        reads.conditions.join(" and "),
        in_order(mapping, writer),
        lock(mapping, writer)
    )
}

/// Rows that have failed and are due again, those first that have been for longest.
pub(super) fn again(mapping: &Mapping, writer: &Writer<'_>, reads: &Reads, limit: &str) -> String {
    format!(
        "select {} from {} s join {} t on {} = {} where s.mapping = $1 and s.due <= {} and {} order by s.due limit {limit}{}",
        reads.columns.join(", "),
        writer.own("sidecar"),
        mapping.table.quoted(),
        writer.of(&mapping.row),
        writer.fitting(&mapping.row, "s.row_id"),
        writer.now("$2"),
        reads.conditions.join(" and "),
        lock(mapping, writer)
    )
}

/// What a read that takes rows for itself ends with. SQLite has one writer at a time.
fn lock(mapping: &Mapping, writer: &Writer<'_>) -> &'static str {
    match (&mapping.claim, writer.dialect) {
        (Claim::Lease, _) | (_, Dialect::Sqlite) => "",
        (Claim::RowLocks | Claim::Columns(_), Dialect::Postgres) => " for update of t skip locked",
    }
}

fn any(mapping: &Mapping, reads: &Reads) -> String {
    format!(
        "select 'yes' from {} t where {} and $4 is not null limit 1",
        mapping.table.quoted(),
        reads.conditions.join(" and ")
    )
}

/// The columns of the order, the row's own last.
pub(super) fn order(mapping: &Mapping) -> Vec<Name> {
    let mut names = mapping.order.clone();
    if !names.contains(&mapping.row) {
        names.push(mapping.row.clone());
    }
    names
}

pub(super) fn in_order(mapping: &Mapping, writer: &Writer<'_>) -> String {
    order(mapping).iter().map(|name| writer.of(name)).collect::<Vec<_>>().join(", ")
}

/// Where a row stands in the order, as a JSON list of texts.
fn place_in_order(mapping: &Mapping, writer: &Writer<'_>) -> String {
    match writer.dialect {
        Dialect::Postgres => {
            let texts: Vec<String> = order(mapping).iter().map(|name| format!("{}::text", writer.of(name))).collect();
            format!("jsonb_build_array({})::text", texts.join(", "))
        }
        Dialect::Sqlite => format!("json_array({})", in_order(mapping, writer)),
    }
}

/// Where a row stands in the order, to be compared.
fn cursor(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!("({})", in_order(mapping, writer))
}

/// The column `$5`, to be compared.
fn given_cursor(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let values: Vec<String> = order(mapping)
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
fn due(mapping: &Mapping, writer: &Writer<'_>, now: &str, row: &str) -> String {
    match &mapping.next_attempt {
        Some(_) => due_in_row(mapping, writer, now),
        None => writer.nothing_parked("$1", &format!("s.row_id = {row} and s.due > {now}")),
    }
}

/// Whether the row itself says that its time has come.
pub(super) fn due_in_row(mapping: &Mapping, writer: &Writer<'_>, now: &str) -> String {
    let Some(path) = &mapping.next_attempt else { return "true".to_owned() };
    let moment = next_attempt(mapping, writer, path);
    // Bare where it can be, so that an index serves it.
    let never_null = path.as_column().and_then(|name| writer.columns.get(name)).is_some_and(|column| !column.nullable);
    if never_null { format!("{moment} <= {now}") } else { format!("({moment} is null or {moment} <= {now})") }
}

/// When a row is tried next.
fn next_attempt(mapping: &Mapping, writer: &Writer<'_>, path: &ColumnPath) -> String {
    or_beside(mapping, writer, path, writer.moment(path), &beside(mapping, writer, "s.due"))
}

/// That no failed row of the key keeps the others waiting. One that is only scheduled for later has not failed.
fn not_blocked(mapping: &Mapping, writer: &Writer<'_>, key: &str, blocked: Until) -> String {
    let (head, now) = (writer.called("b"), writer.now("$2"));
    // What the side table remembers of rows that somebody else has finished or deleted counts no more.
    let is_head = format!(
        "{} = {} and {}",
        head.of(&mapping.row),
        writer.row_id(&mapping.row, "s.row_id"),
        pending(mapping, &head)
    );
    let head_is = |more: &str| format!("exists (select 1 from {} b where {is_head}{more})", mapping.table.quoted());
    let not_in_hand = format!("s.row_id not in {}", writer.listed("$3"));
    let waits = match (blocked, &mapping.next_attempt) {
        (Until::SeenAnew, _) => not_in_hand,
        (Until::Taken, _) => format!("{not_in_hand} and {}", head_is("")),
        (Until::Due, Some(path)) => head_is(&format!(" and {} > {now}", next_attempt(mapping, &head, path))),
        (Until::Due, None) => format!("s.due > {now} and {}", head_is("")),
    };
    writer.nothing_parked("$1", &format!("s.key = {key} and s.due is not null and s.blocks and {waits}"))
}

fn waiting(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    let (moment, from, condition) = match &mapping.next_attempt {
        Some(path) => (
            next_attempt(mapping, writer, path),
            format!("{} t", mapping.table.quoted()),
            format!("$1 is not null and {}", open(mapping, writer)),
        ),
        None => ("s.due".to_owned(), format!("{} s", writer.own("sidecar")), "s.mapping = $1".to_owned()),
    };
    let retried = format!(
        "select {moment} as at from {from} where {condition} and $2 is not null and {moment} > {now} order by {moment} limit 1"
    );
    // What others have claimed may become anybody's.
    let given_up = mapping.claimed().map(|claimed| {
        format!(
            "union all select min({}) as at from {} t where {} and {} not in {}",
            claim::ends(writer, claimed),
            mapping.table.quoted(),
            claim::is_claimed(mapping, writer, claimed),
            writer.text(&ColumnPath::column(mapping.row.clone())),
            writer.listed("$3")
        )
    });
    let again = if given_up.is_some() {
        "min(x.at) is not null".to_owned()
    } else {
        format!("exists (select 1 from {} s where s.mapping = $1 and s.due > {now})", writer.own("sidecar"))
    };
    format!(
        "select {}, case when {again} then 'yes' end from (select at from ({retried}) r {}) x where $3 is not null",
        writer.until("min(x.at)", &now),
        given_up.unwrap_or_default()
    )
}

/// Longest name that is read, in bytes: longer than any that an event may have, and short enough for many rows at once.
const NAME_READ_MAX: usize = 4096;

/// What an event is made of, in the order that [`crate::source`] reads it.
pub(super) fn event_columns(mapping: &Mapping, writer: &Writer<'_>, limits: Limits) -> Vec<String> {
    let event = &mapping.event;
    let nothing = || "cast(null as text)".to_owned();
    let name = |path: &ColumnPath| writer.at_most(path, &writer.text(path), NAME_READ_MAX);
    let text = |path: &Option<ColumnPath>| path.as_ref().map_or_else(nothing, name);
    let occurred_at = writer.first_moment(&mapping.occurred_at(writer.columns));
    let occurred_at = occurred_at.map_or_else(nothing, |moment| writer.micros(&moment));
    let headers = |path| writer.at_most(path, &writer.json_text(path), HEADER_TEXT_MAX);
    let mut columns = vec![
        name(&event.id),
        name(&event.event_type),
        writer.at_most(&event.payload, &writer.json_text(&event.payload), limits.payload_bytes_max),
        text(&event.key),
        text(&event.aggregate_type),
        text(&event.aggregate_id),
        text(&event.tenant),
        occurred_at,
        text(&event.correlation_id),
        text(&event.causation_id),
        text(&event.schema_version),
        event.headers.as_ref().map_or_else(nothing, headers),
    ];
    let attribute = |path| writer.at_most(path, &writer.value(path), HEADER_TEXT_MAX);
    columns.extend(event.attributes.iter().map(|(_, path)| attribute(path)));
    columns
}
