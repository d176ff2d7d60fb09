//! Further routes of a table: entries, one for a route and a row, with a copy of the event.
//!
//! A pending row without an entry has not been seen by the route, a row that is done or dead without one is delivered. Whoever
//! finishes a row makes the entries that are missing in the same transaction, so that nobody needs the row afterwards. Entries of
//! a key have rising numbers, in the order of the table.
//!
//! `$1` mapping, `$2` our clock, `$3` entries or rows as a JSON list, `$4` route, `$5` holder, `$6` term, unless said otherwise.

use std::sync::Arc;

use postroom_core::Limits;

use super::mark::counts;
use super::settle::{later, meant, ours};
use super::take::{due_in_row, event_columns, in_order};
use super::{Writer, key, made, pending};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Mapping};
use crate::sql::columns::Holds;

/// What the first route says of entries when it settles.
#[derive(Debug, Clone)]
pub(crate) struct Entering {
    /// Makes the entries that rows lack which are about to be marked. Fields: `id`, `fence`.
    pub(crate) enter: Arc<str>,
    /// Waits for whoever writes an entry of these rows; what is read afterwards is what they left. Fields: `id`.
    pub(crate) lock: Option<Arc<str>>,
    /// Removes entries of what is delivered of rows that are pending no more. Fields: `id`.
    pub(crate) leave: Arc<str>,
}

impl Entering {
    pub(crate) fn new(mapping: &Mapping, writer: &Writer<'_>, limits: Limits) -> Self {
        let condition = meant(mapping, writer, &ours(mapping, writer));
        let entry = Entry {
            route: "f.name",
            from: format!("{}, {}", writer.unpacked("$3", &["id", "fence"]), of_mapping(mapping, writer)),
            condition: format!("{condition} and f.mapping = $1 and f.further"),
            limit: "",
            there: STAY,
        };
        let rows = format!("d.mapping = $1 and d.row_id {} and {}", among(writer, "x.id"), ours(mapping, writer));
        let lock = format!(
            "select d.row_id from {} d where {rows} order by d.number for update",
            writer.own("adopted_delivery")
        );
        Self {
            enter: made(entry.insert(mapping, writer, Some(limits))),
            lock: (writer.dialect == Dialect::Postgres).then(|| made(lock)),
            leave: made(leave(mapping, writer, &rows)),
        }
    }
}

/// What a further route reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Entries {
    /// Makes entries of pending rows that have none, and brings those rows. `$3` how many at most.
    pub(crate) see: Arc<str>,
    /// What is due: number, failed tries, the event. `$3` numbers in hand, `$4` how many, `$5` route.
    pub(crate) take: Arc<str>,
    /// In how many microseconds the next entry comes, if one does. `$3` route.
    pub(crate) waiting: Arc<str>,
    /// Delivered; the first that brings numbers. Fields: `id`, `fence`.
    pub(crate) done: Arc<str>,
    /// Counts what is about to be delivered, where `done` does not. Fields as for `done`.
    pub(crate) count: Vec<Arc<str>>,
    /// Failed, to be tried again or not. Fields: `id`, `fence`, `state`, `after`, `attempts`, `code`, `error`.
    pub(crate) failed: Arc<str>,
    /// Failed tries. Fields as for those of the first route.
    pub(crate) attempts: Arc<str>,
    /// Removes what is delivered of rows that are pending no more. Fields: `id`.
    pub(crate) leave: Arc<str>,
}

impl Entries {
    /// `blocks` says whether an entry that waits for another try keeps its key waiting.
    pub(crate) fn new(mapping: &Mapping, writer: &Writer<'_>, limits: Limits, blocks: bool) -> Self {
        let ours = ours(mapping, writer);
        let known = format!(
            "not exists (select 1 from {} d where d.mapping = $1 and d.route = $4 and d.row_id = {} and d.event_id = {}{})",
            writer.own("adopted_delivery"),
            row(mapping, writer),
            event_id(mapping, writer),
            one_by_one(writer)
        );
        let due = due_in_row(mapping, writer, &writer.now("$2"));
        let see = Entry {
            route: "f.name",
            from: of_mapping(mapping, writer),
            condition: format!("{} and {due} and {known} and f.name = $4 and {ours}", pending(mapping, writer)),
            limit: "limit cast($3 as integer)",
            there: STAY,
        };
        let done_now = format!("d.mapping = $1 and d.number {} and {ours}", among(writer, "cast(x.id as bigint)"));
        Self {
            see: made(see.insert(mapping, writer, Some(limits)) + " returning row_id"),
            take: made(take(mapping, writer, blocks)),
            waiting: made(waiting(writer)),
            done: made(done(mapping, writer)),
            count: count(mapping, writer).into_iter().map(made).collect(),
            failed: made(failed(mapping, writer)),
            attempts: made(attempts(mapping, writer)),
            leave: made(leave(mapping, writer, &done_now)),
        }
    }

    /// Every statement with how many values it takes.
    pub(crate) fn texts(&self) -> Vec<(&Arc<str>, usize)> {
        let settles = [&self.see, &self.done, &self.failed, &self.attempts, &self.leave];
        let mut all: Vec<_> = settles.into_iter().chain(&self.count).map(|text| (text, 6)).collect();
        all.extend([(&self.take, 5), (&self.waiting, 3)]);
        all
    }
}

/// An entry that is made of each row `t`, under a condition.
struct Entry<'a> {
    /// The route, as an expression.
    route: &'a str,
    from: String,
    condition: String,
    limit: &'a str,
    /// What becomes of those that are there.
    there: &'a str,
}

/// They stay as they are.
const STAY: &str = "nothing";

impl Entry<'_> {
    /// The statement: due entries with copies of events that hold these limits, or entries that say that the route has delivered them.
    fn insert(&self, mapping: &Mapping, writer: &Writer<'_>, limits: Option<Limits>) -> String {
        let event = &mapping.event;
        let nothing = || "cast(null as text)".to_owned();
        let text = |path: &Option<ColumnPath>| path.as_ref().map_or_else(nothing, |path| writer.text(path));
        let now = writer.now("$2");
        let (state, due, copy) = match limits {
            None => ("delivered", "null".to_owned(), "null".to_owned()),
            Some(limits) => ("due", now.clone(), copy(mapping, writer, limits)),
        };
        format!(
            "insert into {} as d (mapping, route, row_id, event_id, position, state, due, since, key, type, aggregate_type, tenant, \
             occurred_at, event) select $1, {}, {}, {}, {}, '{state}', {due}, {now}, {}, {}, {}, {}, {}, {copy} from {} where {} \
             order by {}, {} {} on conflict (mapping, row_id, event_id, route) do {}",
            writer.own("adopted_delivery"),
            self.route,
            row(mapping, writer),
            event_id(mapping, writer),
            position(mapping, writer, &now),
            key(mapping, writer).unwrap_or_else(nothing),
            writer.text(&event.event_type),
            text(&event.aggregate_type),
            text(&event.tenant),
            writer.first_moment(&mapping.occurred_at(writer.columns)).unwrap_or(now.clone()),
            self.from,
            self.condition,
            in_order(mapping, writer),
            self.route,
            self.limit,
            self.there,
        )
    }
}

/// The number that lists go by: the row's own, or its time in microseconds.
pub(crate) fn position(mapping: &Mapping, writer: &Writer<'_>, now: &str) -> String {
    if writer.columns.get(&mapping.row).is_some_and(|column| column.holds == Holds::Integer) {
        return writer.of(&mapping.row);
    }
    let written = mapping.appended_at(writer.columns);
    writer.whole_micros(&written.map_or_else(|| now.to_owned(), |path| writer.moment(&path)))
}

fn of_mapping(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!("{} t, {} f", mapping.table.quoted(), writer.own("adopted_route"))
}

fn row(mapping: &Mapping, writer: &Writer<'_>) -> String {
    writer.text(&ColumnPath::column(mapping.row.clone()))
}

/// The event's id beside that of the row, as a table that is emptied may begin its numbers anew.
fn event_id(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!("coalesce({}, '')", writer.text(&mapping.event.id))
}

/// The columns of an event as a JSON list of texts.
fn copy(mapping: &Mapping, writer: &Writer<'_>, limits: Limits) -> String {
    let columns = event_columns(mapping, writer, limits);
    match writer.dialect {
        Dialect::Postgres => format!("json_build_array({})::text", columns.join(", ")),
        // As text, though it is JSON.
        Dialect::Sqlite => {
            let texts: Vec<String> = columns.iter().map(|column| format!("({column} || '')")).collect();
            format!("json_array({})", texts.join(", "))
        }
    }
}

/// Ends a subquery that is looked up row by row: made into a join, it would go by statistics, which know nothing of a table that
/// was empty.
fn one_by_one(writer: &Writer<'_>) -> &'static str {
    if writer.dialect == Dialect::Postgres { " offset 0" } else { "" }
}

/// Values of a list, to be looked up one by one.
fn among(writer: &Writer<'_>, field: &str) -> String {
    let ids = format!("select {field} from {}", writer.unpacked("$3", &["id"]));
    match writer.dialect {
        Dialect::Postgres => format!("= any (array({ids}))"),
        Dialect::Sqlite => format!("in ({ids})"),
    }
}

/// Whether the row of the entry `d` is still pending.
fn is_pending(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!(
        "exists (select 1 from {} t where {} = {} and {} and {} = d.event_id)",
        mapping.table.quoted(),
        writer.of(&mapping.row),
        writer.fitting(&mapping.row, "d.row_id"),
        pending(mapping, writer),
        event_id(mapping, writer)
    )
}

fn leave(mapping: &Mapping, writer: &Writer<'_>, which: &str) -> String {
    format!(
        "delete from {} as d where {which} and d.state = 'delivered' and not {}",
        writer.own("adopted_delivery"),
        is_pending(mapping, writer)
    )
}

fn take(mapping: &Mapping, writer: &Writer<'_>, blocks: bool) -> String {
    let (entries, now) = (writer.own("adopted_delivery"), writer.now("$2"));
    let (waits, order) = if mapping.ordered && blocks {
        let waits = format!(
            " and not exists (select 1 from {entries} b where b.mapping = $1 and b.route = $5 and b.key = d.key \
             and b.number < d.number and b.state = 'retrying' and b.blocks and b.due > {now})"
        );
        (waits, "d.number")
    } else {
        (String::new(), "d.due, d.number")
    };
    format!(
        "select cast(d.number as text), cast(d.attempts as text), d.event from {entries} d where d.mapping = $1 \
         and d.route = $5 and d.due <= {now} and cast(d.number as text) not in {}{waits} \
         order by {order} limit cast($4 as integer)",
        writer.listed("$3")
    )
}

fn waiting(writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    format!(
        "select {}, case when min(d.due) is not null then 'yes' end from {} d \
         where d.mapping = $1 and d.route = $3 and d.due > {now}",
        writer.until("min(d.due)", &now),
        writer.own("adopted_delivery")
    )
}

/// Which entries are meant: those that are as they were read, of a route that is ours.
fn entry_meant(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!(
        "d.number = cast(x.id as bigint) and d.mapping = $1 and d.route = $4 and d.due is not null \
         and d.attempts = cast(x.fence as integer) and {}",
        ours(mapping, writer)
    )
}

fn returned(writer: &Writer<'_>) -> &'static str {
    // SQLite knows no alias here.
    if writer.dialect == Dialect::Postgres { "d.number::text" } else { "cast(number as text)" }
}

/// What an entry looks like that is delivered of a pending row.
const DELIVERED: &str = "state = 'delivered', due = null, attempts = 0, code = null, error = null, event = null";

fn done(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let update = format!(
        "update {} as d set {DELIVERED}, since = {} from {} where {} returning {}",
        writer.own("adopted_delivery"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "fence"]),
        entry_meant(mapping, writer),
        returned(writer)
    );
    if writer.dialect == Dialect::Sqlite {
        return update;
    }
    let [total, stat] = counts(mapping, writer, "(select count(*) from marked)");
    format!("with marked(id) as ({update}), total as ({total}), stat as ({stat}) select id from marked")
}

fn count(mapping: &Mapping, writer: &Writer<'_>) -> Vec<String> {
    if writer.dialect == Dialect::Postgres {
        return Vec::new();
    }
    let agree = format!(
        "(select count(*) from {}, {} d where {})",
        writer.unpacked("$3", &["id", "fence"]),
        writer.own("adopted_delivery"),
        entry_meant(mapping, writer)
    );
    counts(mapping, writer, &agree).to_vec()
}

fn failed(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!(
        "update {} as d set state = x.state, due = case when x.state = 'retrying' then {} end, \
         attempts = cast(x.attempts as integer), code = x.code, error = x.error, since = {} from {} where {} returning {}",
        writer.own("adopted_delivery"),
        later(writer),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "fence", "state", "after", "attempts", "code", "error"]),
        entry_meant(mapping, writer),
        returned(writer)
    )
}

fn attempts(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let json = if writer.dialect == Dialect::Postgres { "x.handlers::jsonb" } else { "x.handlers" };
    format!(
        "insert into {} (mapping, row_id, route, attempt, at, outcome, code, error, took_ms, handlers) \
         select $1, d.row_id, $4, cast(x.attempt as integer), {}, x.outcome, x.code, x.error, cast(x.took_ms as bigint), {json} \
         from {}, {} d where {}",
        writer.own("adopted_attempt"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "fence", "attempt", "outcome", "code", "error", "took_ms", "handlers"]),
        writer.own("adopted_delivery"),
        entry_meant(mapping, writer)
    )
}

/// Of every pending row, before a route is registered that begins with later ones: an entry that says that the route has
/// delivered it. `$2` our clock, `$3` the time before which rows count as old, or nothing, `$4` route.
pub(crate) fn begin(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    let occurred_at = writer.first_moment(&mapping.occurred_at(writer.columns)).unwrap_or(now);
    let entry = Entry {
        route: "$4",
        from: format!("{} t", mapping.table.quoted()),
        condition: format!(
            "{} and $2 is not null and ($3 = '' or {occurred_at} < {}) and not exists (select 1 from {} r where r.name = $4)",
            pending(mapping, writer),
            writer.at_micros("nullif($3, '')"),
            writer.own("adopted_route")
        ),
        limit: "",
        there: STAY,
    };
    entry.insert(mapping, writer, None)
}

/// Of rows that only the first route is to deliver again: entries that say that the others have delivered them. `$3` rows.
pub(crate) fn spared(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let entry = Entry {
        route: "f.name",
        from: format!("{}, {}", writer.unpacked("$3", &["id"]), of_mapping(mapping, writer)),
        condition: format!(
            "{} = {} and {} and f.mapping = $1 and f.further and $2 is not null",
            writer.of(&mapping.row),
            writer.row_id(&mapping.row, "x.id"),
            pending(mapping, writer)
        ),
        limit: "",
        there: STAY,
    };
    entry.insert(mapping, writer, None)
}

/// Of rows that a further route has delivered: due entries. Fields: `id`; `$4` route. Brings those rows.
pub(crate) fn replayed(mapping: &Mapping, writer: &Writer<'_>, limits: Limits) -> String {
    let entry = Entry {
        route: "$4",
        from: format!("{}, {} t", writer.unpacked("$3", &["id"]), mapping.table.quoted()),
        condition: format!("{} = {} and $2 is not null", writer.of(&mapping.row), writer.row_id(&mapping.row, "x.id")),
        limit: "",
        there: "update set state = 'due', due = excluded.due, since = excluded.since, event = excluded.event \
                where d.state = 'delivered' returning row_id",
    };
    entry.insert(mapping, writer, Some(limits))
}

/// Removes entries of what is delivered of rows that somebody else has finished or deleted, so many at most; brings those rows.
pub(crate) fn swept(mapping: &Mapping, writer: &Writer<'_>, at_most: usize) -> String {
    let entries = writer.own("adopted_delivery");
    format!(
        "delete from {entries} where number in (select d.number from {entries} d where d.mapping = $1 \
         and d.state = 'delivered' and not {} limit {at_most}) returning row_id",
        is_pending(mapping, writer)
    )
}

/// Gives dead entries up. Fields: `id`; the first statement brings those that agreed.
pub(crate) fn discarded(mapping: &Mapping, writer: &Writer<'_>) -> [String; 2] {
    let listed = format!("d.number {}", among(writer, "cast(x.id as bigint)"));
    [
        format!(
            "update {} as d set {DELIVERED}, since = {} where d.mapping = $1 and {listed} and d.state = 'dead' \
             and $2 is not null returning {}",
            writer.own("adopted_delivery"),
            writer.now("$2"),
            returned(writer)
        ),
        leave(mapping, writer, &format!("d.mapping = $1 and $2 is not null and {listed}")),
    ]
}

/// Makes dead entries due, as if they had never been tried. Fields: `id`; brings those that agreed.
pub(crate) fn revived(writer: &Writer<'_>) -> String {
    let now = writer.now("$2");
    format!(
        "update {} as d set state = 'due', due = {now}, attempts = 0, blocks = true, since = {now} where d.mapping = $1 \
         and d.number {} and d.state = 'dead' and $2 is not null returning {}",
        writer.own("adopted_delivery"),
        among(writer, "cast(x.id as bigint)"),
        returned(writer)
    )
}

/// Gives an entry up by an operator's word. Fields: `id`, `attempts`, `code`, `error`.
pub(crate) fn given_up(writer: &Writer<'_>) -> String {
    format!(
        "update {} as d set state = 'dead', due = null, code = x.code, error = x.error, since = {} from {} \
         where d.mapping = $1 and $2 is not null and d.number = cast(x.id as bigint) and d.state = 'retrying'",
        writer.own("adopted_delivery"),
        writer.now("$2"),
        writer.unpacked("$3", &["id", "code", "error"])
    )
}
