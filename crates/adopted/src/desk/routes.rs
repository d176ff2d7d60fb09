//! The route and its relays: how it is doing, stopping and starting it.

use std::collections::BTreeMap;

use postroom_core::view::{Counts, LaneRow, RelayRow, RouteDetail, RouteStatus, StoreRow};
use postroom_core::{Actor, Filter, Pattern, RouteDefinition, RouteHealth, RouteState, StoreError, StoreErrorKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::actions::{moment, record};
use super::query::{Query, number, text};
use crate::ground::{Dialect, Row, Statement};
use crate::layout::State;
use crate::store::{Inner, clock};
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
    let minute = match dialect {
        Dialect::Postgres => "date_trunc('minute', statement_timestamp()) - interval '1 minute'".to_owned(),
        Dialect::Sqlite => "cast($1 as integer) / 60000000 * 60000000 - 60000000".to_owned(),
    };
    let statement = format!(
        "select r.name, r.destination, cast(r.filter as text), r.on_failure, r.on_dead, {}, r.paused_by, r.holder, \
         cast(r.term as text), cast(r.delivered as text), \
         cast(coalesce((select sum(delivered) from {} s where s.route = r.name and s.minute >= {minute}), 0) as text) \
         from {} r where r.layout = $2 and $1 is not null order by r.name",
        writer.micros("r.registered_at"),
        writer.own("adopted_stat"),
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
        let occurred = due.occurred_at();
        let oldest = due.writer.until(&now, "min(x.at)");
        let from = due.from();
        let text_due = format!(
            "select cast(count(*) as text), {oldest} from (select {occurred} as at {from} limit {}) x",
            COUNT_MAX + 1
        );
        let due = due.fetch("routes", text_due).await?;

        let mut retrying = Query::new(inner);
        retrying.and(query.is_pending());
        retrying.and(format!("{next} > {now}"));
        let keys = match inner.layout.order_key() {
            Some(key) => format!("count(distinct {})", retrying.writer.text(key)),
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
            note: other_words(inner).await?,
        })
    }
}

/// How many rows have a word that is never claimed: `2 rows are failed`.
pub(super) async fn other_words(inner: &Inner) -> Result<String, StoreError> {
    let State::Words { place, pending, done, .. } = &inner.layout.state else { return Ok(String::new()) };
    let mut query = Query::new(inner);
    let word = query.writer.text(place);
    let ours: Vec<&str> =
        std::iter::once(pending.as_str()).chain([done.as_str()]).chain(inner.layout.dead_word()).collect();
    let ours = query.value(serde_json::json!(ours).to_string());
    query.and(format!("({word} is null or {word} not in {})", query.writer.listed(&ours)));
    let text_of = format!("select {word}, cast(count(*) as text) {} group by 1 order by 1 limit 10", query.from());
    let rows = query.fetch("routes", text_of).await?;
    let parts: Vec<String> = rows
        .iter()
        .map(|row| match text(row, 0) {
            Some(word) => format!("{} rows are {word}, which nobody claims", number::<u64>(row, 1)),
            None => format!("{} rows have no state", number::<u64>(row, 1)),
        })
        .collect();
    Ok(parts.join("; "))
}

fn detail(inner: &Inner, row: &Row, relays: &[(RelayRow, Row)], numbers: &Numbers) -> Result<RouteDetail, StoreError> {
    let name = text(row, 0).unwrap_or_default();
    let filter: Filter = text(row, 2).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let (paused_by, holder) = (text(row, 6), text(row, 7));
    let (state, health) = state(&name, paused_by.as_deref(), holder.as_deref(), relays);
    let notes: Vec<&str> = [health.as_str(), numbers.note.as_str()].into_iter().filter(|n| !n.is_empty()).collect();
    let delivered: u64 = number(row, 9);
    let rate = number::<f64>(row, 10) / 90.0;
    let status = RouteStatus {
        store: inner.name.clone(),
        route: name,
        to: text(row, 1).unwrap_or_default(),
        state,
        due: numbers.due.min(COUNT_MAX),
        due_estimated: numbers.due > COUNT_MAX,
        oldest_due_seconds: numbers.oldest_due_seconds,
        rate,
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
        "select l.boot, l.name, l.version, {}, {}, case when l.alive_until > {now} then 'yes' else 'no' end, \
         cast(l.routes as text), cast((select count(*) from {} r where r.holder = l.boot) as text) \
         from {} l where $1 is not null order by l.started_at, l.boot",
        writer.micros("l.started_at"),
        writer.micros("l.seen_at"),
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
        schema_version: 1,
        events,
        bytes: None,
        unmatched: 0,
        note: format!("adopted table {}", inner.layout_name),
    })
}

pub(super) async fn set_paused(inner: &Inner, route: &str, actor: &Actor, pause: bool) -> Result<bool, StoreError> {
    let table = inner.writer().own("adopted_route");
    let there = Statement::new(format!("select 'yes' from {table} where name = $1")).bind(route);
    let (text_of, action) = if pause {
        (
            format!("update {table} set paused_by = $2 where name = $1 and paused_by is null returning name"),
            "route.pause",
        )
    } else {
        (
            format!(
                "update {table} set paused_by = null where name = $1 and paused_by is not null and $2 is not null returning name"
            ),
            "route.resume",
        )
    };
    let change = Statement::new(text_of).bind(route).bind(&actor.name);
    let found = inner.ground.run("pause", vec![there, change]).await?;
    if found.first().is_none_or(Vec::is_empty) {
        return Err(not_registered(route, "pause"));
    }
    let changed = found.get(1).is_some_and(|rows| !rows.is_empty());
    if changed {
        inner.ground.run("pause", vec![record(inner, actor, action, route, 0)]).await?;
    }
    inner.wake.wake();
    Ok(changed)
}

pub(super) async fn forget(inner: &Inner, route: &str, actor: &Actor) -> Result<(), StoreError> {
    let live =
        relays(inner).await?.into_iter().find(|(relay, _)| relay.alive && relay.routes.iter().any(|r| r == route));
    if let Some((relay, _)) = live {
        let message = format!("relay {} ({}) serves route {route:?}", relay.relay, relay.boot);
        return Err(StoreError::new(StoreErrorKind::Conflict, "forget", message).hint("stop that relay first"));
    }
    let writer = inner.writer();
    let gone = Statement::new(format!("delete from {} where name = $1 returning name", writer.own("adopted_route")))
        .bind(route);
    let aside =
        Statement::new(format!("delete from {} where layout = $1", writer.own("sidecar"))).bind(&inner.layout_name);
    let found = inner.ground.run("forget", vec![gone, aside, record(inner, actor, "route.forget", route, 0)]).await?;
    if found.first().is_none_or(Vec::is_empty) { Err(not_registered(route, "forget")) } else { Ok(()) }
}

fn from_word<T: DeserializeOwned>(word: Option<String>) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(word.unwrap_or_default())).map_err(|error| {
        StoreError::new(StoreErrorKind::NotAStore, "routes", "a route's setting cannot be read").caused_by(error)
    })
}
