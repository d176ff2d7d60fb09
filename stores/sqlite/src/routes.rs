//! Routes as the store keeps them: registration, changes, and who serves them.

use postroom_core::{
    Actor, Filter, OnDead, OnFailure, Pause, RelayIdentity, RouteHealth, RouteSpec, StartFrom, StoreError,
    StoreErrorKind, Timestamp, valid_name,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::admin;
use crate::clock::{micros, span, timestamp};
use crate::error::Fault;
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
    /// Numbers up to this one were there before the route.
    pub(crate) start_seq: i64,
    /// What was appended before is not for this route.
    pub(crate) start_at: Option<i64>,
    /// When it was registered.
    pub(crate) since: i64,
    pub(crate) pause: Option<Pause>,
}

impl Registered {
    fn read(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            filter: serde_json::from_str(row.try_get("filter")?).map_err(|e| sqlx::Error::Decode(e.into()))?,
            to: row.try_get("destination")?,
            on_failure: from_word(row.try_get("on_failure")?)?,
            on_dead: from_word(row.try_get("on_dead")?)?,
            start: row.try_get("start")?,
            start_seq: row.try_get("start_seq")?,
            start_at: row.try_get("start_at")?,
            since: row.try_get("registered_at")?,
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
fn pause(row: &SqliteRow) -> Result<Option<Pause>, sqlx::Error> {
    let Some(by) = row.try_get("paused_by")? else { return Ok(None) };
    let at = row.try_get::<Option<i64>, _>("paused_at")?.map_or(Timestamp::UNIX_EPOCH, timestamp);
    Ok(Some(Pause { by, at, reason: row.try_get("pause_reason")? }))
}

/// Every registered route, by name.
pub(crate) async fn all(conn: &mut SqliteConnection) -> Result<Vec<Registered>, sqlx::Error> {
    let rows = sqlx::query("select * from postroom_route order by name").fetch_all(conn).await?;
    rows.iter().map(Registered::read).collect()
}

/// One registered route.
pub(crate) async fn find(conn: &mut SqliteConnection, name: &str) -> Result<Option<Registered>, sqlx::Error> {
    let row = sqlx::query("select * from postroom_route where name = ?1").bind(name).fetch_optional(conn).await?;
    row.as_ref().map(Registered::read).transpose()
}

/// One registered route, or the error that it is not.
pub(crate) async fn need(
    conn: &mut SqliteConnection,
    name: &str,
    operation: &'static str,
) -> Result<Registered, Fault> {
    find(conn, name).await?.ok_or_else(|| not_registered(name, operation).into())
}

pub(crate) fn not_registered(name: &str, operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, operation, format!("route {name:?} is not registered in this store"))
        .hint("`postroom route ls` shows the routes that are")
}

/// A live relay that serves the route, other than `boot`. One whose heartbeat lies further ahead than its lease is of
/// before the clock was set back, and gone: a living one corrects that at its next renewal.
pub(crate) async fn live_relay(
    conn: &mut SqliteConnection,
    route: &str,
    boot: &str,
    now: i64,
) -> Result<Option<(String, String)>, sqlx::Error> {
    sqlx::query_as(
        "select name, boot from postroom_relay \
         where source = '' and boot <> ?1 and alive_until > ?2 and seen_at - ?2 <= alive_until - seen_at \
         and json_type(routes, ?3) is not null limit 1",
    )
    .bind(boot)
    .bind(now)
    .bind(path_of(route))
    .fetch_optional(conn)
    .await
}

/// Fails if the route is not registered, or if a live relay serves it.
pub(crate) async fn need_unserved(
    conn: &mut SqliteConnection,
    route: &str,
    now: i64,
    operation: &'static str,
) -> Result<(), Fault> {
    need(conn, route, operation).await?;
    let Some((name, boot)) = live_relay(conn, route, "", now).await? else { return Ok(()) };
    Err(StoreError::new(
        StoreErrorKind::Conflict,
        operation,
        format!("route {route:?} is served by relay {name} ({boot}), which is alive"),
    )
    .hint("stop the relay, or take the route out of its configuration first")
    .into())
}

/// Where a route stands in a relay's `routes`.
pub(crate) fn path_of(route: &str) -> String {
    format!("$.\"{route}\"")
}

/// Registers the route if it is new, else takes its changes over, and says that this relay serves it.
pub(crate) async fn join(inner: &Inner, relay: &RelayIdentity, route: &RouteSpec) -> Result<(), StoreError> {
    let (relay, route, now) = (relay.clone(), route.clone(), inner.now());
    inner
        .db
        .write("register", move |conn| {
            Box::pin(async move {
                if !register(conn, &route, now).await? {
                    change(conn, &relay, &route, now).await?;
                }
                heartbeat(conn, &relay, &route.name, &RouteHealth::running(), now).await?;
                Ok(())
            })
        })
        .await
}

/// The first checkpoint of a route: rows up to its start, there or pruned, are its base and never counted as seen.
const REGISTER_CHECKPOINT: &str = "
    insert into postroom_checkpoint (route, lane, term, hwm, base)
    select r.name, 0, 0, r.start_seq,
      (select count(*) from postroom_log where seq <= r.start_seq) + (select value from postroom_meta where name = 'pruned')
    from postroom_route r where r.name = ?1";

/// Registers the route if it is new; says whether it was.
pub(crate) async fn register(conn: &mut SqliteConnection, route: &RouteSpec, now: i64) -> Result<bool, Fault> {
    if !valid_name(&route.name) {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            "register",
            format!("{:?} cannot be a route's name", route.name),
        )
        .hint("use lower-case letters, digits, `-`, `_` and `.`, at most 63")
        .into());
    }
    let new = sqlx::query(include_str!("sql/register.sql"))
        .bind(&route.name)
        .bind(json!(route.filter).to_string())
        .bind(&route.to)
        .bind(word(&route.on_failure))
        .bind(word(&route.on_dead))
        .bind(route.start.to_string())
        .bind(matches!(route.start, StartFrom::Now))
        .bind(if let StartFrom::At(time) = route.start { Some(micros(time)) } else { None })
        .bind(now)
        .execute(&mut *conn)
        .await?
        .rows_affected();
    if new == 0 {
        return Ok(false);
    }
    // Terms go on after those of forgotten routes: a relay of before must not find its own again.
    sqlx::query(
        "insert into postroom_lane (route, lane, holder, term) \
         values (?1, 0, null, coalesce((select value from postroom_meta where name = 'term'), 0))",
    )
    .bind(&route.name)
    .execute(&mut *conn)
    .await?;
    sqlx::query(REGISTER_CHECKPOINT).bind(&route.name).execute(conn).await?;
    Ok(true)
}

/// Takes over what changed in the definition, unless a live relay serves the old one.
async fn change(conn: &mut SqliteConnection, relay: &RelayIdentity, route: &RouteSpec, now: i64) -> Result<(), Fault> {
    let there = need(conn, &route.name, "register").await?;
    let lanes: i64 = sqlx::query_scalar(
        "select count(*) from postroom_lane l join postroom_checkpoint c on c.route = l.route and c.lane = l.lane \
         where l.route = ?1 and l.lane = 0",
    )
    .bind(&route.name)
    .fetch_one(&mut *conn)
    .await?;
    if lanes != 1 {
        return Err(no_checkpoint(&route.name).into());
    }
    if there.agrees_with(route) {
        return Ok(());
    }
    let old = describe(&there.to, &there.filter, there.on_failure, there.on_dead);
    let new = describe(&route.to, &route.filter, route.on_failure, route.on_dead);
    if let Some((name, boot)) = live_relay(conn, &route.name, &relay.boot, now).await? {
        return Err(StoreError::new(
            StoreErrorKind::Conflict,
            "register",
            format!("relay {name} ({boot}) serves route {:?} as {old}, this relay defines it as {new}", route.name),
        )
        .hint("give both relays the same definition, or stop the other one first")
        .into());
    }
    sqlx::query(
        "update postroom_route set filter = ?2, destination = ?3, on_failure = ?4, on_dead = ?5 where name = ?1",
    )
    .bind(&route.name)
    .bind(json!(route.filter).to_string())
    .bind(&route.to)
    .bind(word(&route.on_failure))
    .bind(word(&route.on_dead))
    .execute(&mut *conn)
    .await?;
    // A relay that slept since its lease ran out may still hold the lane; it must not go on with the old definition.
    sqlx::query("update postroom_lane set holder = null where route = ?1 and lane = 0")
        .bind(&route.name)
        .execute(&mut *conn)
        .await?;
    let reason = format!("from {old} to {new}");
    let actor = Actor { name: relay.name.clone(), reason: Some(reason) };
    admin::record(conn, &actor, "route.change", &route.name, 0, now).await?;
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
        format!("route {route:?} is registered, but its lane 0 has no checkpoint"),
    )
    .hint("restore the file from a backup, or start the route anew with `postroom route forget`")
}

/// Says that the relay lives for another lease, and how the route is doing.
pub(crate) async fn heartbeat(
    conn: &mut SqliteConnection,
    relay: &RelayIdentity,
    route: &str,
    health: &RouteHealth,
    now: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("sql/heartbeat.sql"))
        .bind(&relay.boot)
        .bind(&relay.name)
        .bind(&relay.version)
        .bind(now)
        .bind(now.saturating_add(span(relay.lease)))
        .bind(path_of(route))
        .bind(json!(health).to_string())
        .execute(conn)
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
