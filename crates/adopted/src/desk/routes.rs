//! The route and its relays: how it is doing, stopping and starting it.

use std::collections::BTreeMap;

use postroom_core::view::{Counts, LaneRow, RelayRow, RouteDetail, RouteStatus, StoreRow};
use postroom_core::{Actor, Filter, Pattern, RouteDefinition, RouteHealth, RouteState, StoreError, StoreErrorKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::actions::{moment, record, record_if};
use super::query::{Query, number, text};
use crate::ground::{Dialect, Row, Statement};
use crate::layout::State;
use crate::sql::order_key;
use crate::store::{Inner, clock};
use crate::tables::NEEDS;
use crate::tables::routes::{self, not_registered};

/// Beyond so many rows a count is an estimate.
const COUNT_MAX: u64 = 10_000;

pub(super) async fn register(inner: &Inner, definitions: &[RouteDefinition]) -> Result<Vec<String>, StoreError> {
    let statements = definitions.iter().map(|route| routes::register(inner, route)).collect();
    let found = inner.ground.run("register", statements).await?;
    Ok(found.into_iter().flatten().filter_map(|row| text(&row, 0)).collect())
}

/// The names of the routes of this table: one, or none yet.
pub(super) async fn names(inner: &Inner) -> Result<Vec<String>, StoreError> {
    let text_of = format!("select name from {} where layout = $1 order by name", inner.writer().own("adopted_route"));
    let found = inner.ground.look("routes", vec![Statement::new(text_of).bind(&inner.layout_name)]).await?;
    Ok(found.into_iter().flatten().filter_map(|row| text(&row, 0)).collect())
}

pub(super) async fn list(inner: &Inner) -> Result<Vec<RouteDetail>, StoreError> {
    let (writer, dialect) = (inner.writer(), inner.ground.dialect());
    let (minute, gone) = match dialect {
        Dialect::Postgres => (
            "date_trunc('minute', statement_timestamp())".to_owned(),
            "extract(second from statement_timestamp())".to_owned(),
        ),
        Dialect::Sqlite => (
            "cast($1 as integer) / 60000000 * 60000000".to_owned(),
            "cast($1 as integer) % 60000000 / 1000000.0".to_owned(),
        ),
    };
    let before = match dialect {
        Dialect::Postgres => format!("{minute} - interval '1 minute'"),
        Dialect::Sqlite => format!("{minute} - 60000000"),
    };
    let stat = writer.own("adopted_stat");
    let of = |minute: &str| {
        format!("coalesce((select s.delivered from {stat} s where s.route = r.name and s.minute = {minute}), 0)")
    };
    // This minute's, and of the one before what still counts.
    let statement = format!(
        "select r.name, r.destination, cast(r.filter as text), r.on_failure, r.on_dead, {}, r.paused_by, r.holder, \
         cast(r.term as text), cast(r.delivered as text), \
         cast(({} + {} * (1.0 - {gone} / 60.0)) / 60.0 as text) \
         from {} r where r.layout = $2 and $1 is not null order by r.name",
        writer.micros("r.registered_at"),
        of(&minute),
        of(&before),
        writer.own("adopted_route")
    );
    let statement = Statement::new(statement).bind(clock()).bind(&inner.layout_name);
    let found = inner.ground.look("routes", vec![statement]).await?;
    let relays = relays(inner).await?;
    let numbers = Numbers::of(inner).await?;
    let mut details = Vec::new();
    for row in found.into_iter().flatten() {
        details.push(detail(inner, &row, &relays, &numbers)?);
    }
    Ok(details)
}

/// What the table says.
struct Numbers {
    due: u64,
    oldest_due_seconds: f64,
    retrying: u64,
    dead: u64,
    blocked_keys: u64,
    /// Rows with a word of others, or one that nobody declared.
    note: String,
}

impl Numbers {
    async fn of(inner: &Inner) -> Result<Self, StoreError> {
        let query = Query::new(inner);
        let (now, next) = (query.now(), query.next_attempt());
        let mut due = Query::new(inner);
        due.and(query.is_pending());
        due.and(format!("({next} is null or {next} <= {now})"));
        let appended = due.appended_at();
        let oldest = due.writer.until(&now, "min(x.at)");
        let from = due.from();
        let text_due = format!(
            "select cast(count(*) as text), {oldest} from (select {appended} as at {from} limit {}) x",
            COUNT_MAX + 1
        );
        let due = due.fetch("routes", text_due).await?;

        let mut retrying = Query::new(inner);
        retrying.and(query.is_pending());
        retrying.and(format!("{next} > {now} and (s.due is not null or {} <> '0')", retrying.attempts()));
        let keys = match order_key(&inner.layout, &retrying.writer) {
            Some(key) => format!("count(distinct case when s.due is not null and s.blocks then {key} end)"),
            None => "0".to_owned(),
        };
        let text_retrying = format!("select cast(count(*) as text), cast({keys} as text) {}", retrying.from());
        let retrying = retrying.fetch("routes", text_retrying).await?;

        let mut dead = Query::new(inner);
        dead.and(query.is_dead());
        let text_dead = format!("select cast(count(*) as text) {}", dead.from());
        let dead = dead.fetch("routes", text_dead).await?;

        let first = |rows: &[Row]| rows.first().cloned().unwrap_or_default();
        let (due, retrying, dead) = (first(&due), first(&retrying), first(&dead));
        let age: f64 = number(&due, 1);
        Ok(Self {
            due: number(&due, 0),
            oldest_due_seconds: (age / 1_000_000.0).max(0.0),
            retrying: number(&retrying, 0),
            blocked_keys: number(&retrying, 1),
            dead: number(&dead, 0),
            note: other_words(inner).await?.note(),
        })
    }
}

/// Rows that are neither pending nor done nor dead, by their words.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// With a word of others that the layout declares.
    known: Vec<String>,
    /// With a word that nobody declared, or none.
    pub(super) unknown: Vec<String>,
}

impl Others {
    fn note(&self) -> String {
        self.unknown.iter().chain(&self.known).cloned().collect::<Vec<_>>().join("; ")
    }
}

pub(super) async fn other_words(inner: &Inner) -> Result<Others, StoreError> {
    let State::Words { place, pending, done, known } = &inner.layout.state else { return Ok(Others::default()) };
    let mut query = Query::new(inner);
    let word = query.writer.text(place);
    let claimed = inner.layout.claimed().map(|claimed| claimed.word.as_str());
    let ours = [pending.as_str(), done.as_str()].into_iter().chain(inner.layout.dead_word()).chain(claimed);
    let ours: Vec<&str> = ours.collect();
    let ours = query.value(serde_json::json!(ours).to_string());
    query.and(format!("({word} is null or {word} not in {})", query.writer.listed(&ours)));
    let text_of = format!("select {word}, cast(count(*) as text) {} group by 1 order by 1 limit 10", query.from());
    let mut others = Others::default();
    for row in query.fetch("routes", text_of).await? {
        let rows: u64 = number(&row, 1);
        match text(&row, 0) {
            Some(word) if known.contains(&word) => others.known.push(format!("{rows} rows are {word}")),
            Some(word) => others.unknown.push(format!("{rows} rows are {word}, which the layout does not declare")),
            None => others.unknown.push(format!("{rows} rows have no state")),
        }
    }
    Ok(others)
}

fn detail(inner: &Inner, row: &Row, relays: &[(RelayRow, Row)], numbers: &Numbers) -> Result<RouteDetail, StoreError> {
    let name = text(row, 0).unwrap_or_default();
    let filter: Filter = text(row, 2).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let (paused_by, holder) = (text(row, 6), text(row, 7));
    let (state, health) = state(&name, paused_by.as_deref(), holder.as_deref(), relays);
    let notes: Vec<&str> = [health.as_str(), numbers.note.as_str()].into_iter().filter(|n| !n.is_empty()).collect();
    let delivered: u64 = number(row, 9);
    let status = RouteStatus {
        store: inner.name.clone(),
        route: name,
        to: text(row, 1).unwrap_or_default(),
        state,
        due: numbers.due.min(COUNT_MAX),
        due_estimated: numbers.due > COUNT_MAX,
        oldest_due_seconds: numbers.oldest_due_seconds,
        rate: number(row, 10),
        delivered,
        retrying: numbers.retrying,
        blocked_keys: numbers.blocked_keys,
        dead: numbers.dead,
        note: notes.join("; "),
    };
    let held_by = relays.iter().find(|(relay, _)| Some(relay.boot.as_str()) == holder.as_deref());
    let lane = LaneRow {
        lane: 0,
        holder: held_by.map(|(relay, _)| relay.relay.clone()).or(holder),
        term: number(row, 8),
        hwm: 0,
        unsettled: 0,
        counts: Counts { delivered, ..Counts::default() },
    };
    let words = |patterns: &[Pattern]| patterns.iter().map(ToString::to_string).collect();
    Ok(RouteDetail {
        status,
        types: words(&filter.types),
        aggregate_type: words(&filter.aggregate_type),
        tenant: words(&filter.tenant),
        start: "beginning".to_owned(),
        on_failure: from_word(text(row, 3))?,
        on_dead: from_word(text(row, 4))?,
        registered_at: moment(number(row, 5)),
        paused_by,
        lanes: vec![lane],
    })
}

/// Paused by an operator, else what a live relay says of it, its owner first, else nobody's.
fn state(
    route: &str,
    paused_by: Option<&str>,
    holder: Option<&str>,
    relays: &[(RelayRow, Row)],
) -> (RouteState, String) {
    if let Some(who) = paused_by {
        let RouteHealth { state, note } = RouteHealth::paused(who);
        return (state, note);
    }
    let mut live: Vec<&(RelayRow, Row)> =
        relays.iter().filter(|(relay, _)| relay.alive && relay.routes.iter().any(|name| name == route)).collect();
    live.sort_by_key(|(relay, _)| Some(relay.boot.as_str()) != holder);
    let Some((_, row)) = live.first() else {
        return (RouteState::Orphan, "no live relay serves this route".to_owned());
    };
    let health = text(row, 6)
        .and_then(|json| serde_json::from_str::<BTreeMap<String, Value>>(&json).ok())
        .and_then(|mut routes| serde_json::from_value::<RouteHealth>(routes.remove(route)?).ok());
    match health {
        Some(health) => (health.state, health.note),
        None => (RouteState::Running, "its relay is of another version".to_owned()),
    }
}

/// Every relay, with its row.
async fn relays(inner: &Inner) -> Result<Vec<(RelayRow, Row)>, StoreError> {
    let writer = inner.writer();
    let now = writer.now("$1");
    let statement = format!(
        "select l.boot, l.name, l.version, {}, {}, case when {} then 'yes' else 'no' end, \
         cast(l.routes as text), cast((select count(*) from {} r where r.holder = l.boot) as text) \
         from {} l where $1 is not null order by l.started_at, l.boot",
        writer.micros("l.started_at"),
        writer.micros("l.seen_at"),
        routes::is_alive("l", &now),
        writer.own("adopted_route"),
        writer.own("adopted_relay")
    );
    let found = inner.ground.look("relays", vec![Statement::new(statement).bind(clock())]).await?;
    let relay = |row: Row| {
        let routes: BTreeMap<String, Value> =
            text(&row, 6).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        let relay = RelayRow {
            store: inner.name.clone(),
            relay: text(&row, 1).unwrap_or_default(),
            boot: text(&row, 0).unwrap_or_default(),
            version: text(&row, 2).unwrap_or_default(),
            alive: text(&row, 5).as_deref() == Some("yes"),
            started_at: moment(number(&row, 3)),
            seen_at: moment(number(&row, 4)),
            lanes: number(&row, 7),
            routes: routes.into_keys().collect(),
        };
        (relay, row)
    };
    Ok(found.into_iter().flatten().map(relay).collect())
}

pub(super) async fn all_relays(inner: &Inner) -> Result<Vec<RelayRow>, StoreError> {
    Ok(relays(inner).await?.into_iter().map(|(relay, _)| relay).collect())
}

pub(super) async fn store(inner: &Inner) -> Result<StoreRow, StoreError> {
    let count =
        format!("select cast(count(*) as text) from (select 1 from {} limit 1000000) x", inner.layout.table.quoted());
    let found = inner.ground.look("store", vec![Statement::new(count)]).await?;
    let events = found.into_iter().flatten().next().map(|row| number(&row, 0)).unwrap_or_default();
    Ok(StoreRow {
        store: inner.name.clone(),
        kind: "adopted",
        reachable: true,
        schema_version: NEEDS,
        events,
        bytes: None,
        unmatched: 0,
        note: format!("adopted table {}", inner.layout_name),
    })
}

pub(super) async fn set_paused(inner: &Inner, route: &str, actor: &Actor, pause: bool) -> Result<bool, StoreError> {
    if !names(inner).await?.iter().any(|name| name == route) {
        return Err(not_registered(route, "pause"));
    }
    let table = inner.writer().own("adopted_route");
    let (changes, new, action) =
        if pause { ("is null", "$2", "route.pause") } else { ("is not null", "null", "route.resume") };
    let condition = format!("name = $1 and paused_by {changes} and $2 is not null");
    let entry = record_if(
        inner,
        actor,
        action,
        route,
        0,
        &format!("exists (select 1 from {table} where name = $4 and paused_by {changes})"),
    );
    let change = format!("update {table} set paused_by = {new} where {condition} returning name");
    let change = Statement::new(change).bind(route).bind(&actor.name);
    let found = inner.ground.run("pause", vec![entry, change]).await?;
    inner.wake.wake();
    Ok(found.get(1).is_some_and(|rows| !rows.is_empty()))
}

pub(super) async fn forget(inner: &Inner, route: &str, actor: &Actor) -> Result<(), StoreError> {
    if !names(inner).await?.iter().any(|name| name == route) {
        return Err(not_registered(route, "forget"));
    }
    let live =
        relays(inner).await?.into_iter().find(|(relay, _)| relay.alive && relay.routes.iter().any(|r| r == route));
    if let Some((relay, _)) = live {
        let message = format!("relay {} ({}) serves route {route:?}", relay.relay, relay.boot);
        return Err(StoreError::new(StoreErrorKind::Conflict, "forget", message).hint("stop that relay first"));
    }
    let writer = inner.writer();
    let gone = Statement::new(format!("delete from {} where name = $1", writer.own("adopted_route"))).bind(route);
    let aside =
        Statement::new(format!("delete from {} where layout = $1", writer.own("sidecar"))).bind(&inner.layout_name);
    let stat = Statement::new(format!("delete from {} where route = $1", writer.own("adopted_stat"))).bind(route);
    let entry = record(inner, actor, "route.forget", route, 0);
    inner.ground.run("forget", vec![gone, aside, stat, entry]).await.map(drop)
}

fn from_word<T: DeserializeOwned>(word: Option<String>) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(word.unwrap_or_default())).map_err(|error| {
        StoreError::new(StoreErrorKind::NotAStore, "routes", "a route's setting cannot be read").caused_by(error)
    })
}
