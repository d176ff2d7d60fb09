//! The route and its relays: how it is doing, stopping and starting it.

use std::collections::BTreeMap;

use postroom_admin::view::{
    Counts, EVENTS_COUNTED_MAX, LaneRow, RelayRow, ReplayState, RouteDetail, RouteStatus, StoreRow,
};
use postroom_admin::{replays, routes as shared};
use postroom_core::{Actor, Filter, Pattern, Pause, RouteHealth, RouteSpec, StoreError, StoreErrorKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::query::{Query, number, text};
use super::tables::{Action, Tables, first, moment};
use crate::executor::{Dialect, Row, Statement};
use crate::mapping::State;
use crate::store::{Inner, clock};
use crate::tables::NEEDS;
use crate::tables::routes::{self, not_registered};

/// Beyond so many rows a count is an estimate.
const COUNT_MAX: u64 = 10_000;

pub(super) async fn register(inner: &Inner, definitions: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
    let mut new = Vec::new();
    for route in definitions {
        let found = inner.executor.run("register", routes::register(inner, route)).await?;
        new.extend(found.last().into_iter().flatten().filter_map(|row| text(row, 0)));
    }
    Ok(new)
}

/// A route of this table.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) name: String,
    /// Whether it has entries of its own, and does not mark the rows.
    pub(super) further: bool,
}

/// The routes of this table, that which marks the rows first.
pub(super) async fn registered(inner: &Inner) -> Result<Vec<Registered>, StoreError> {
    let text_of = format!(
        "select name, case when further then 'yes' end from {} where mapping = $1 order by further, name",
        inner.writer().own("adopted_route")
    );
    let found = inner.executor.look("routes", vec![Statement::new(text_of).bind(&inner.mapping_name)]).await?;
    let route = |row: Row| Some(Registered { name: text(&row, 0)?, further: text(&row, 1).is_some() });
    Ok(found.into_iter().flatten().filter_map(route).collect())
}

/// The route of this name; an error if there is none.
pub(super) async fn need(inner: &Inner, route: &str, operation: &'static str) -> Result<Registered, StoreError> {
    let routes = registered(inner).await?;
    routes.into_iter().find(|known| known.name == route).ok_or_else(|| not_registered(route, operation))
}

pub(super) async fn list(inner: &Inner) -> Result<Vec<RouteDetail>, StoreError> {
    let (writer, dialect) = (inner.writer(), inner.executor.dialect());
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
    let stat = writer.own("stat");
    let of = |minute: &str| {
        format!(
            "coalesce((select s.delivered from {stat} s where s.source = r.mapping and s.route = r.name and s.minute = {minute}), 0)"
        )
    };
    // This minute's, and of the one before what still counts.
    let statement = format!(
        "select r.name, r.destination, cast(r.filter as text), r.on_failure, r.on_dead, {}, r.paused_by, r.holder, \
         cast(r.term as text), cast(r.delivered as text), \
         cast(({} + {} * (1.0 - {gone} / 60.0)) / 60.0 as text), r.pause_reason, {}, r.start, \
         case when r.further then 'yes' end \
         from {} r where r.mapping = $2 and $1 is not null order by r.further, r.name",
        writer.micros("r.registered_at"),
        of(&minute),
        of(&before),
        writer.micros("r.paused_at"),
        writer.own("adopted_route")
    );
    let statement = Statement::new(statement).bind(clock()).bind(&inner.mapping_name);
    let found = inner.executor.look("routes", vec![statement]).await?;
    let relays = relays(inner).await?;
    let mut details = Vec::new();
    for row in found.into_iter().flatten() {
        let route = Registered { name: text(&row, 0).unwrap_or_default(), further: text(&row, 14).is_some() };
        let numbers = Numbers::of(inner, &route).await?;
        details.push(detail(inner, &row, &relays, &numbers)?);
    }
    Ok(details)
}

/// Reports whether nothing is due or retrying on a route, whichever relay owns or claims it.
pub(crate) async fn is_drained(inner: &Inner, route: &str) -> Result<bool, StoreError> {
    let numbers = Numbers::of(inner, &need(inner, route, "drain").await?).await?;
    Ok(numbers.due == 0 && numbers.retrying == 0)
}

/// What the table says.
struct Numbers {
    due: u64,
    oldest_due_seconds: f64,
    retrying: u64,
    dead: u64,
    blocked_keys: u64,
    /// Rows with a word of others, or one that nobody declared.
    message: String,
}

impl Numbers {
    async fn of(inner: &Inner, route: &Registered) -> Result<Self, StoreError> {
        // First: a row that is seen meanwhile is counted twice, and not left out.
        let (unseen, unseen_age) = if route.further { unseen(inner, route).await? } else { (0, 0.0) };
        let query = Query::of(inner, route);
        let (now, next) = (query.now(), query.next_attempt());
        let mut due = Query::of(inner, route);
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

        let mut retrying = Query::of(inner, route);
        retrying.and(query.is_pending());
        retrying.and(format!("{next} > {now} and (s.due is not null or {} <> '0')", retrying.attempts()));
        let keys = format!("count(distinct case when s.due is not null and s.blocks then {} end)", retrying.key());
        let keys = if inner.mapping.ordered { keys } else { "0".to_owned() };
        let text_retrying = format!("select cast(count(*) as text), cast({keys} as text) {}", retrying.from());
        let retrying = retrying.fetch("routes", text_retrying).await?;

        let mut dead = Query::of(inner, route);
        dead.and(query.is_dead());
        let text_dead = format!("select cast(count(*) as text) {}", dead.from());
        let dead = dead.fetch("routes", text_dead).await?;

        let first = |rows: &[Row]| rows.first().cloned().unwrap_or_default();
        let (due, retrying, dead) = (first(&due), first(&retrying), first(&dead));
        let age: f64 = number(&due, 1);
        Ok(Self {
            due: number::<u64>(&due, 0) + unseen,
            oldest_due_seconds: (age.max(unseen_age) / 1_000_000.0).max(0.0),
            retrying: number(&retrying, 0),
            blocked_keys: number(&retrying, 1),
            dead: number(&dead, 0),
            message: if route.further { String::new() } else { other_words(inner).await?.note() },
        })
    }
}

/// Pending rows that a further route has no entry for, and the age of the oldest in microseconds.
async fn unseen(inner: &Inner, route: &Registered) -> Result<(u64, f64), StoreError> {
    let mut query = Query::settled_by(inner, route);
    query.and(format!("s.number is null and {}", crate::sql::open(&inner.mapping, &query.writer)));
    if let Some(path) = &inner.mapping.next_attempt {
        let moment = query.writer.moment(path);
        query.and(format!("({moment} is null or {moment} <= {})", query.now()));
    }
    let oldest = query.writer.until(&query.now(), "min(x.at)");
    let appended = query.appended_at();
    let statement = format!(
        "select cast(count(*) as text), {oldest} from (select {appended} as at {} limit {}) x",
        query.from(),
        COUNT_MAX + 1
    );
    let found = query.fetch("routes", statement).await?;
    let row = found.into_iter().next().unwrap_or_default();
    Ok((number(&row, 0), number(&row, 1)))
}

/// Rows that are neither pending nor done nor dead, by their words.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// With a word of others that the mapping declares.
    ignored: Vec<String>,
    /// With a word that nobody declared, or none.
    pub(super) unknown: Vec<String>,
}

impl Others {
    fn note(&self) -> String {
        self.unknown.iter().chain(&self.ignored).cloned().collect::<Vec<_>>().join("; ")
    }
}

pub(super) async fn other_words(inner: &Inner) -> Result<Others, StoreError> {
    let State::Words { path, pending, done, ignored } = &inner.mapping.state else { return Ok(Others::default()) };
    let mut query = Query::new(inner);
    let word = query.writer.text(path);
    let claimed = inner.mapping.claimed().map(|claimed| claimed.word.as_str());
    let ours = [pending.as_str(), done.as_str()].into_iter().chain(inner.mapping.dead_word()).chain(claimed);
    let ours: Vec<&str> = ours.collect();
    let ours = query.value(serde_json::json!(ours).to_string());
    query.and(format!("({word} is null or {word} not in {})", query.writer.listed(&ours)));
    let text_of = format!("select {word}, cast(count(*) as text) {} group by 1 order by 1 limit 10", query.from());
    let mut others = Others::default();
    for row in query.fetch("routes", text_of).await? {
        let rows: u64 = number(&row, 1);
        match text(&row, 0) {
            Some(word) if ignored.contains(&word) => others.ignored.push(format!("{rows} rows are {word}")),
            Some(word) => others.unknown.push(format!("{rows} rows are {word}, which the mapping does not declare")),
            None => others.unknown.push(format!("{rows} rows have no state")),
        }
    }
    Ok(others)
}

fn detail(inner: &Inner, row: &Row, relays: &[(RelayRow, Row)], numbers: &Numbers) -> Result<RouteDetail, StoreError> {
    let name = text(row, 0).unwrap_or_default();
    let filter: Filter = text(row, 2).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let holder = text(row, 7);
    let pause = text(row, 6).map(|by| Pause { by, at: moment(number(row, 12)), reason: text(row, 11) });
    let health = health(&name, pause.as_ref(), holder.as_deref(), relays);
    let notes: Vec<&str> =
        [health.message.as_str(), numbers.message.as_str()].into_iter().filter(|n| !n.is_empty()).collect();
    let delivered: u64 = number(row, 9);
    let status = RouteStatus {
        store: inner.name.clone(),
        route: name,
        to: text(row, 1).unwrap_or_default(),
        state: health.state,
        since: health.since,
        next_try: health.next_try,
        due: Some(numbers.due.min(COUNT_MAX)),
        due_estimated: numbers.due > COUNT_MAX,
        oldest_due_seconds: Some(numbers.oldest_due_seconds),
        rate: health.rate,
        rate_1m: number(row, 10),
        delivered,
        retrying: numbers.retrying,
        blocked_keys: numbers.blocked_keys,
        dead: numbers.dead,
        message: notes.join("; "),
        consumers: health.consumers,
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
        start: text(row, 13).unwrap_or_default(),
        on_failure: from_word(text(row, 3))?,
        on_dead: from_word(text(row, 4))?,
        registered_at: moment(number(row, 5)),
        paused_at: pause.as_ref().map(|pause| pause.at),
        pause_reason: pause.as_ref().and_then(|pause| pause.reason.clone()),
        paused_by: pause.map(|pause| pause.by),
        lanes: vec![lane],
    })
}

/// What live relays say of the route, its owner first, else nobody's. Their rates add up.
fn health(route: &str, pause: Option<&Pause>, holder: Option<&str>, relays: &[(RelayRow, Row)]) -> RouteHealth {
    let mut live: Vec<&(RelayRow, Row)> =
        relays.iter().filter(|(relay, _)| relay.alive && relay.routes.iter().any(|name| name == route)).collect();
    live.sort_by_key(|(relay, _)| Some(relay.boot.as_str()) != holder);
    let said = |(_, row): &&(RelayRow, Row)| {
        let routes = text(row, 6).and_then(|json| serde_json::from_str::<BTreeMap<String, Value>>(&json).ok());
        routes.and_then(|mut routes| routes.remove(route)).map(|health| health.to_string()).unwrap_or_default()
    };
    let said: Vec<String> = live.iter().map(said).collect();
    RouteHealth::of_relays(said.iter().map(String::as_str), pause)
}

/// Every relay, with its row.
async fn relays(inner: &Inner) -> Result<Vec<(RelayRow, Row)>, StoreError> {
    let writer = inner.writer();
    let now = writer.now("$1");
    let statement = format!(
        "select l.boot, l.name, l.version, {}, {}, case when {} then 'yes' else 'no' end, \
         cast(l.routes as text), cast((select count(*) from {} r where r.mapping = l.source and r.holder = l.boot) as text) \
         from {} l where $1 is not null and l.source = $2 order by l.started_at, l.boot",
        writer.micros("l.started_at"),
        writer.micros("l.seen_at"),
        routes::is_alive("l", &now),
        writer.own("adopted_route"),
        writer.own("relay")
    );
    let statement = Statement::new(statement).bind(clock()).bind(&inner.mapping_name);
    let found = inner.executor.look("relays", vec![statement]).await?;
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
    let count = format!(
        "select cast(count(*) as text) from (select 1 from {} limit {}) x",
        inner.mapping.table.quoted(),
        EVENTS_COUNTED_MAX + 1
    );
    let found = inner.executor.look("store", vec![Statement::new(count)]).await?;
    let events = found.into_iter().flatten().next().map(|row| number(&row, 0)).unwrap_or_default();
    Ok(StoreRow {
        store: inner.name.clone(),
        kind: "adopted",
        reachable: true,
        schema_version: Some(NEEDS),
        events: Some(events),
        events_estimated: events > EVENTS_COUNTED_MAX,
        bytes: None,
        unmatched: Some(0),
        message: format!("adopted table {}", inner.mapping_name),
    })
}

/// Change of a route by an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Switch {
    Pause,
    Resume,
    Probe,
}

/// Changes a route; returns whether that changed anything.
pub(crate) async fn switch(inner: &Inner, route: &str, actor: &Actor, switch: Switch) -> Result<bool, StoreError> {
    need(inner, route, "pause").await?;
    let writer = inner.writer();
    let (table, now) = (writer.own("adopted_route"), writer.now("$2"));
    let (action, change) = match switch {
        Switch::Pause => {
            let change = format!(
                "update {table} set paused_by = $3, pause_reason = nullif($4, ''), paused_at = {now} \
                 where name = $1 and paused_by is null and $2 is not null returning name"
            );
            (
                "route.pause",
                Statement::new(change)
                    .bind(route)
                    .bind(clock())
                    .bind(&actor.name)
                    .bind(actor.reason.clone().unwrap_or_default()),
            )
        }
        Switch::Resume => {
            let change = format!(
                "update {table} set paused_by = null, pause_reason = null, paused_at = null \
                 where name = $1 and paused_by is not null returning name"
            );
            ("route.resume", Statement::new(change).bind(route))
        }
        Switch::Probe => {
            let change = format!(
                "update {table} set probe_at = {now} where name = $1 and paused_by is null and $2 is not null returning name"
            );
            ("route.probe", Statement::new(change).bind(route).bind(clock()))
        }
    };
    let action = Action::new(actor, action, route);
    let changed = action.run(inner, "pause", vec![change], |changed| first(changed).map(|_| 0)).await?;
    inner.wake.wake();
    Ok(first(&changed).is_some())
}

/// Fails if the route is not registered, or if a live relay serves it.
async fn need_unserved(inner: &Inner, route: &str, operation: &'static str) -> Result<(), StoreError> {
    need(inner, route, operation).await?;
    let live =
        relays(inner).await?.into_iter().find(|(relay, _)| relay.alive && relay.routes.iter().any(|r| r == route));
    let Some((relay, _)) = live else { return Ok(()) };
    let message = format!("relay {} ({}) serves route {route:?}", relay.relay, relay.boot);
    Err(StoreError::new(StoreErrorKind::Conflict, operation, message).hint("stop that relay first"))
}

/// Renames the route; what it has delivered stands in the adopted table itself.
pub(super) async fn rename(inner: &Inner, route: &str, to: &str, actor: &Actor) -> Result<(), StoreError> {
    shared::check_new_name(to)?;
    need_unserved(inner, route, "rename").await?;
    let writer = inner.writer();
    // A name is unique over all adopted tables of a database.
    let taken = format!("select name from {} where name = $1", writer.own("adopted_route"));
    let taken = inner.executor.look("rename", vec![Statement::new(taken).bind(to)]).await?;
    if taken.into_iter().flatten().next().is_some() {
        return Err(shared::name_is_taken(route, to));
    }
    for state in [ReplayState::Running, ReplayState::Paused] {
        if let Some(replay) = replays::list(&Tables(inner), Some(state), 1).await?.first() {
            return Err(shared::replay_is_unfinished(route, &replay.id));
        }
    }
    let renamed = format!("update {} set name = $2 where name = $1", writer.own("adopted_route"));
    let renamed = Statement::new(renamed).bind(route).bind(to);
    let stat = format!("update {} set route = $3 where source = $1 and route = $2", writer.own("stat"));
    let stat = Statement::new(stat).bind(&inner.mapping_name).bind(route).bind(to);
    let own = ["adopted_delivery", "adopted_attempt"].map(|table| {
        let text = format!("update {} set route = $3 where mapping = $1 and route = $2", writer.own(table));
        Statement::new(text).bind(&inner.mapping_name).bind(route).bind(to)
    });
    let subject = format!("{route} to {to}");
    let action = Action::new(actor, "route.rename", &subject);
    let statements = [renamed, stat].into_iter().chain(own).collect();
    action.run(inner, "rename", statements, |_| Some(1)).await.map(drop)
}

pub(super) async fn forget(inner: &Inner, route: &str, actor: &Actor) -> Result<(), StoreError> {
    need_unserved(inner, route, "forget").await?;
    let (writer, known) = (inner.writer(), need(inner, route, "forget").await?);
    let gone = Statement::new(format!("delete from {} where name = $1", writer.own("adopted_route"))).bind(route);
    let parked = if known.further {
        let entries = format!("delete from {} where mapping = $1 and route = $2", writer.own("adopted_delivery"));
        Statement::new(entries).bind(&inner.mapping_name).bind(route)
    } else {
        Statement::new(format!("delete from {} where mapping = $1", writer.own("sidecar"))).bind(&inner.mapping_name)
    };
    let stat = format!("delete from {} where source = $1 and route = $2", writer.own("stat"));
    let stat = Statement::new(stat).bind(&inner.mapping_name).bind(route);
    let action = Action::new(actor, "route.forget", route);
    action.run(inner, "forget", vec![gone, parked, stat], |_| Some(0)).await.map(drop)
}

fn from_word<T: DeserializeOwned>(word: Option<String>) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(word.unwrap_or_default())).map_err(|error| {
        StoreError::new(StoreErrorKind::UnexpectedSchema, "routes", "a route's setting cannot be read").caused_by(error)
    })
}
