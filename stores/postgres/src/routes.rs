//! Routes as the store keeps them: registration, changes, and who serves them.

use std::sync::Arc;

use postroom_core::{
    Actor, Filter, OnDead, OnFailure, Pause, RelayIdentity, RouteHealth, RouteSpec, StartFrom, StoreError,
    StoreErrorKind, Timestamp, valid_name,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::admin;
use crate::clock::{Time, micros, span, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::source::position::{Position, Snapshot};
use crate::sql::{array, stored};
use crate::store::Inner;

/// A registered route.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) filter: Filter,
    pub(crate) to: String,
    pub(crate) on_failure: OnFailure,
    pub(crate) on_dead: OnDead,
    pub(crate) start: String,
    /// What was appended before is not for this route.
    pub(crate) start_at: Option<i64>,
    /// When it was registered.
    pub(crate) since: i64,
    pub(crate) pause: Option<Pause>,
}

impl Registered {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            filter: serde_json::from_str(row.try_get("filter")?).map_err(|e| sqlx::Error::Decode(e.into()))?,
            to: row.try_get("destination")?,
            on_failure: from_word(row.try_get("on_failure")?)?,
            on_dead: from_word(row.try_get("on_dead")?)?,
            start: row.try_get("start")?,
            start_at: row.try_get::<Option<Time>, _>("start_at")?.map(|at| at.0),
            since: row.try_get::<Time, _>("registered_at")?.0,
            pause: pause(row)?,
        })
    }

    pub(crate) fn agrees_with(&self, route: &RouteSpec) -> bool {
        self.filter == route.filter
            && self.to == route.to
            && self.on_failure == route.on_failure
            && self.on_dead == route.on_dead
    }
}

/// Who paused a route, when and why.
fn pause(row: &PgRow) -> Result<Option<Pause>, sqlx::Error> {
    let Some(by) = row.try_get("paused_by")? else { return Ok(None) };
    let at = row.try_get::<Option<Time>, _>("paused_at")?.map_or(Timestamp::UNIX_EPOCH, |at| timestamp(at.0));
    Ok(Some(Pause { by, at, reason: row.try_get("pause_reason")? }))
}

const ROUTE: &str = "select name, filter::text as filter, destination, on_failure, on_dead, start, start_at, registered_at, \
     paused_by, paused_at, pause_reason from postroom.route where $1::text is null or name = $1 order by name";

/// Every registered route, by name.
pub(crate) async fn all(session: &mut Session) -> Result<Vec<Registered>, sqlx::Error> {
    let rows = session.sql.query(ROUTE).bind(None::<String>).fetch_all(&mut *session.conn).await?;
    rows.iter().map(Registered::read).collect()
}

/// One registered route.
pub(crate) async fn find(session: &mut Session, name: &str) -> Result<Option<Registered>, sqlx::Error> {
    let row = session.sql.query(ROUTE).bind(Some(name.to_owned())).fetch_optional(&mut *session.conn).await?;
    row.as_ref().map(Registered::read).transpose()
}

/// One registered route, or the error that it is not.
pub(crate) async fn need(session: &mut Session, name: &str, operation: &'static str) -> Result<Registered, Fault> {
    find(session, name).await?.ok_or_else(|| not_registered(name, operation).into())
}

pub(crate) fn not_registered(name: &str, operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, operation, format!("route {name:?} is not registered in this store"))
        .hint("`postroom route ls` shows the routes that are")
}

/// A live relay that serves the route, other than `boot`. One whose heartbeat lies further ahead than its lease is of
/// before the clock was set back, and gone: a living one corrects that at its next renewal.
pub(crate) async fn live_relay(
    session: &mut Session,
    route: &str,
    boot: &str,
    now: i64,
) -> Result<Option<(String, String)>, sqlx::Error> {
    let row = session
        .sql
        .query(
            "select name, boot from postroom.relay where source = '' and boot <> $1 and alive_until > $2 \
             and seen_at - $2 <= alive_until - seen_at and routes ? $3 limit 1",
        )
        .bind(boot.to_owned())
        .bind(Time(now))
        .bind(route.to_owned())
        .fetch_optional(&mut *session.conn)
        .await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

/// Fails if the route is not registered, or if a live relay serves it. Whoever joins waits for the route's row.
pub(crate) async fn need_unserved(
    session: &mut Session,
    inner: &Inner,
    route: &str,
    operation: &'static str,
) -> Result<(), Fault> {
    let held = session.sql.query("select from postroom.route where name = $1 for update").bind(route.to_owned());
    held.execute(&mut *session.conn).await?;
    need(session, route, operation).await?;
    let now = inner.now(session).await?;
    let Some((name, boot)) = live_relay(session, route, "", now).await? else { return Ok(()) };
    Err(StoreError::new(
        StoreErrorKind::Conflict,
        operation,
        format!("route {route:?} is served by relay {name} ({boot}), which is alive"),
    )
    .hint("stop the relay, or take the route out of its configuration first")
    .into())
}

/// Registers the route if it is new, else takes its changes over, and says that this relay serves it.
pub(crate) async fn join(inner: &Arc<Inner>, relay: &RelayIdentity, route: &RouteSpec) -> Result<(), StoreError> {
    register(inner, std::slice::from_ref(route)).await?;
    let (relay, route, shared) = (relay.clone(), route.clone(), Arc::clone(inner));
    inner
        .db
        .write("register", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                // Also after we registered it ourselves: another relay may have changed it since, and lives by now.
                change(session, &shared, &relay, &route, now).await?;
                heartbeat(session, &relay, &route.name, &RouteHealth::running(), Some(Time(now))).await?;
                Ok(())
            })
        })
        .await
}

/// Where a lane of a new route begins, and how many rows lie before it.
#[derive(Debug, Clone, Default)]
struct Beginning {
    lane: i16,
    position: Position,
    /// Rows up to there, there or truncated; `None` counts the truncated ones when the route is written.
    base: Option<i64>,
}

/// Registers those of the routes that are new, all or none; returns their names.
pub(crate) async fn register(inner: &Arc<Inner>, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
    if let Some(bad) = routes.iter().find(|route| !valid_name(&route.name)) {
        let message = format!("{:?} cannot be a route's name", bad.name);
        return Err(StoreError::new(StoreErrorKind::Invalid, "register", message)
            .hint("use lower-case letters, digits, `-`, `_` and `.`, at most 63"));
    }
    let there = inner.db.read("register", |session| Box::pin(async move { Ok(all(session).await?) })).await?;
    let is_new = |route: &&RouteSpec| !there.iter().any(|known| known.name == route.name);
    let new: Vec<RouteSpec> = routes.iter().filter(is_new).cloned().collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let first = (0..inner.partitioning.lanes).map(|lane| Beginning { lane, ..Beginning::default() }).collect();
    // The read must be the only statement of its transaction, so it comes before: what commits in between, the routes get.
    let end = if new.iter().any(|route| route.start == StartFrom::Now) {
        inner.db.write("register", |session| Box::pin(beginnings(session))).await?
    } else {
        Vec::new()
    };
    let shared = Arc::clone(inner);
    inner
        .db
        .write("register", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                // Nobody truncates between the count of what was truncated and the routes that rest on it.
                let quiet = session.sql.query("select from postroom.truncated order by lane for share");
                quiet.execute(&mut *session.conn).await?;
                let mut names = Vec::new();
                for route in new {
                    let beginnings = if route.start == StartFrom::Now { &end } else { &first };
                    if write(session, &route, beginnings, now).await? {
                        names.push(route.name);
                    }
                }
                Ok(names)
            })
        })
        .await
}

/// Reads where the log ends now, throwing its rows away.
async fn beginnings(session: &mut Session) -> Result<Vec<Beginning>, Fault> {
    let rows = session.sql.query(include_str!("sql/start.sql")).fetch_all(&mut *session.conn).await?;
    let mut beginnings = Vec::new();
    for row in &rows {
        let snapshot = Snapshot::parse(row.try_get("snap")?, row.try_get::<i64, _>("above")?)
            .ok_or_else(|| sqlx::Error::Decode("a snapshot cannot be read".into()))?;
        let position = Position::at_start(row.try_get("hwm")?, &snapshot);
        beginnings.push(Beginning { lane: row.try_get("lane")?, position, base: Some(row.try_get("base")?) });
    }
    Ok(beginnings)
}

/// Registers a route if its name is new.
const REGISTER: &str = "
    insert into postroom.route (name, filter, destination, on_failure, on_dead, start, start_at, registered_at)
    values ($1, $2::jsonb, $3, $4, $5, $6, $7, $8)
    on conflict do nothing";

async fn write(session: &mut Session, route: &RouteSpec, beginnings: &[Beginning], now: i64) -> Result<bool, Fault> {
    fn column<T>(all: &[Beginning], of: impl Fn(&Beginning) -> T) -> Vec<T> {
        all.iter().map(of).collect()
    }
    let new = session
        .sql
        .query(REGISTER)
        .bind(route.name.clone())
        .bind(json!(route.filter).to_string())
        .bind(route.to.clone())
        .bind(word(&route.on_failure))
        .bind(word(&route.on_dead))
        .bind(route.start.to_string())
        .bind(if let StartFrom::At(time) = route.start { Some(Time(micros(time))) } else { None })
        .bind(Time(now))
        .execute(&mut *session.conn)
        .await?
        .rows_affected();
    if new == 0 {
        return Ok(false);
    }
    session
        .sql
        .query(include_str!("sql/register_lanes.sql"))
        .bind(route.name.clone())
        .bind(column(beginnings, |b| b.lane))
        .bind(column(beginnings, |b| b.position.hwm))
        .bind(column(beginnings, |b| array(b.position.pending.keys())))
        .bind(column(beginnings, |b| array(b.position.pending.values())))
        .bind(column(beginnings, |b| b.base))
        .bind(Time(now))
        .execute(&mut *session.conn)
        .await?;
    Ok(true)
}

/// Takes over what changed in the definition, unless a live relay serves the old one.
async fn change(
    session: &mut Session,
    inner: &Inner,
    relay: &RelayIdentity,
    route: &RouteSpec,
    now: i64,
) -> Result<(), Fault> {
    // Held to the end: two relays with different definitions must not both find nobody else.
    let held = session.sql.query("select 1 from postroom.route where name = $1 for no key update");
    held.bind(route.name.clone()).fetch_optional(&mut *session.conn).await?;
    let there = need(session, &route.name, "register").await?;
    let lanes: i64 = session
        .sql
        .scalar(
            "select count(*) from postroom.lane l where l.route = $1 and exists \
             (select 1 from postroom.checkpoint c where c.route = l.route and c.lane = l.lane)",
        )
        .bind(route.name.clone())
        .fetch_one(&mut *session.conn)
        .await?;
    if lanes != i64::from(inner.partitioning.lanes) {
        return Err(no_checkpoint(&route.name).into());
    }
    if there.agrees_with(route) {
        return Ok(());
    }
    let old = describe(&there.to, &there.filter, there.on_failure, there.on_dead);
    let new = describe(&route.to, &route.filter, route.on_failure, route.on_dead);
    if let Some((name, boot)) = live_relay(session, &route.name, &relay.boot, now).await? {
        return Err(StoreError::new(
            StoreErrorKind::Conflict,
            "register",
            format!("relay {name} ({boot}) serves route {:?} as {old}, this relay defines it as {new}", route.name),
        )
        .hint("give both relays the same definition, or stop the other one first")
        .into());
    }
    session
        .sql
        .query(
            "update postroom.route set filter = $2::jsonb, destination = $3, on_failure = $4, on_dead = $5 where name = $1",
        )
        .bind(route.name.clone())
        .bind(json!(route.filter).to_string())
        .bind(route.to.clone())
        .bind(word(&route.on_failure))
        .bind(word(&route.on_dead))
        .execute(&mut *session.conn)
        .await?;
    // A relay that slept since its lease ran out may still hold lanes; it must not go on with the old definition.
    let free = session.sql.query("update postroom.lane set holder = null where route = $1 and holder is not null");
    free.bind(route.name.clone()).execute(&mut *session.conn).await?;
    let reason = format!("from {old} to {new}");
    let actor = Actor { name: relay.name.clone(), reason: Some(reason) };
    admin::record(session, &actor, "route.change", &route.name, 0, now).await?;
    Ok(())
}

/// The error of a relay whose definition was replaced while it did not live.
pub(crate) fn was_changed(route: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Conflict,
        "take",
        format!("route {route:?} was changed by another relay while this one did not live"),
    )
    .hint("restart this relay with the new definition; `postroom route show` has it")
}

/// The error of a lane that has lost its position; reading from the beginning instead would send everything again.
pub(crate) fn no_checkpoint(route: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::UnexpectedSchema,
        "register",
        format!("route {route:?} is registered, but a lane of it has no checkpoint"),
    )
    .hint("restore the tables from a backup, or start the route anew with `postroom route forget`")
}

/// Says that the relay lives for another lease, and how the route is doing.
pub(crate) async fn heartbeat(
    session: &mut Session,
    relay: &RelayIdentity,
    route: &str,
    health: &RouteHealth,
    now: Option<Time>,
) -> Result<(), sqlx::Error> {
    session
        .sql
        .query(include_str!("sql/heartbeat.sql"))
        .bind(relay.boot.clone())
        .bind(relay.name.clone())
        .bind(relay.version.clone())
        .bind(now)
        .bind(span(relay.lease))
        .bind(route.to_owned())
        .bind(json!(RouteHealth { message: stored(&health.message), ..health.clone() }).to_string())
        .execute(&mut *session.conn)
        .await
        .map(drop)
}

fn describe(to: &str, filter: &Filter, on_failure: OnFailure, on_dead: OnDead) -> String {
    json!({"to": to, "filter": filter, "on_failure": on_failure, "on_dead": on_dead}).to_string()
}

/// The word a setting is stored as.
fn word<T: Serialize>(value: &T) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

fn from_word<T: DeserializeOwned>(word: String) -> Result<T, sqlx::Error> {
    serde_json::from_value(Value::String(word)).map_err(|e| sqlx::Error::Decode(e.into()))
}
