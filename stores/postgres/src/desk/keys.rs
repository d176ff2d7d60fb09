//! Keys whose events wait behind an earlier one, and how an operator lets them go on.

use std::sync::Arc;

use postroom_core::view::{BlockedKey, KeyPlace};
use postroom_core::{Actor, StoreError, StoreErrorKind};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::actions::{Action, record};
use super::dead::{attempts, parse_state};
use super::lanes;
use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::{count, signed};
use crate::release::release;
use crate::routes;
use crate::store::Inner;

pub(super) async fn blocked(
    inner: &Inner,
    route: Option<&str>,
    after: Option<&KeyPlace>,
    limit: usize,
) -> Result<Vec<BlockedKey>, StoreError> {
    let (store, route) = (inner.name.clone(), route.map(str::to_owned));
    // Before every position there is.
    let first = || KeyPlace { position: i64::MIN, route: String::new(), key: String::new() };
    let after = after.cloned().unwrap_or_else(first);
    inner
        .db
        .read("keys", move |session| {
            Box::pin(async move {
                let blocked = session.sql.query(include_str!("../sql/blocked_keys.sql"));
                let blocked = blocked.bind(route).bind(signed(limit as u64));
                let blocked = blocked.bind(after.position).bind(after.route).bind(after.key);
                let rows = blocked.fetch_all(&mut *session.conn).await?;
                let key = |row: &PgRow| {
                    Ok(BlockedKey {
                        store: store.clone(),
                        route: row.try_get("route")?,
                        key: row.try_get("key")?,
                        head_id: row.try_get("id")?,
                        head_position: row.try_get("seq")?,
                        head_state: parse_state(row.try_get("state")?)?,
                        attempts: attempts(row.try_get("attempts")?),
                        code: row.try_get("code")?,
                        error: row.try_get("error")?,
                        due_at: row.try_get::<Option<Time>, _>("due")?.map(|at| timestamp(at.0)),
                        waiting: count(row.try_get("waiting")?),
                        since: timestamp(row.try_get::<Time, _>("since")?.0),
                    })
                };
                Ok(rows.iter().map(key).collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}

pub(super) async fn unblock(inner: &Arc<Inner>, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
    let (shared, route, key, actor) = (Arc::clone(inner), route.to_owned(), key.to_owned(), actor.clone());
    let waiting = inner
        .db
        .write("unblock", move |session| {
            Box::pin(async move {
                routes::need(session, &route, "unblock").await?;
                lanes::lock_key(session, &route, &key, shared.ring.lanes).await?;
                let now = shared.now(session).await?;
                let waiting = let_go(session, &route, &key).await?;
                release(session, &route, std::slice::from_ref(&key), now).await?;
                record(session, &Action::of(&actor, "key.unblock"), &subject(&route, &key), waiting, now).await?;
                Ok(waiting)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(waiting)
}

/// Makes the heads of the key block nobody; returns how many were waiting.
async fn let_go(session: &mut Session, route: &str, key: &str) -> Result<u64, Fault> {
    let waiting: i64 = session
        .sql
        .scalar("select count(*) from postroom.delivery where route = $1 and key = $2 and blocks and state = 'blocked'")
        .bind(route.to_owned())
        .bind(key.to_owned())
        .fetch_one(&mut *session.conn)
        .await?;
    let heads = session
        .sql
        .query(
            "update postroom.delivery set blocks = false \
             where route = $1 and key = $2 and blocks and state in ('retrying', 'dead')",
        )
        .bind(route.to_owned())
        .bind(key.to_owned())
        .execute(&mut *session.conn)
        .await?
        .rows_affected();
    if heads == 0 {
        return Err(not_blocked("unblock", route, key).into());
    }
    Ok(count(waiting))
}

pub(super) async fn skip_head(inner: &Arc<Inner>, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
    let (shared, route, key, actor) = (Arc::clone(inner), route.to_owned(), key.to_owned(), actor.clone());
    let id = inner
        .db
        .write("skip_head", move |session| {
            Box::pin(async move {
                routes::need(session, &route, "skip_head").await?;
                lanes::lock_key(session, &route, &key, shared.ring.lanes).await?;
                let now = shared.now(session).await?;
                let id = give_up(session, &route, &key, now).await?;
                release(session, &route, std::slice::from_ref(&key), now).await?;
                record(session, &Action::of(&actor, "key.skip_head"), &subject(&route, &key), 1, now).await?;
                Ok(id)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(id)
}

/// Makes the head of the key a dead letter that blocks nobody; returns its event's id.
async fn give_up(session: &mut Session, route: &str, key: &str, now: i64) -> Result<String, Fault> {
    let head = session.sql.query(include_str!("../sql/head.sql")).bind(route.to_owned()).bind(key.to_owned());
    let head = head.fetch_optional(&mut *session.conn).await?;
    let Some(head) = head else { return Err(not_blocked("skip_head", route, key).into()) };
    let id: String = head.try_get("id")?;
    // The one that failed may have got through just now; whoever stands next is not to blame.
    if head.try_get("healthy")? {
        return Err(StoreError::new(
            StoreErrorKind::NotFound,
            "skip_head",
            format!("key {key:?} of route {route:?} is not blocked any more: its next event {id:?} has not failed"),
        )
        .hint("`postroom key ls --blocked` shows the keys that are")
        .into());
    }
    session
        .sql
        .query(
            "update postroom.delivery set state = 'dead', blocks = false, due = null, since = $2, \
             code = coalesce(code, 'operator.skipped') where handle = $1",
        )
        .bind(head.try_get::<i64, _>("handle")?)
        .bind(Time(now))
        .execute(&mut *session.conn)
        .await?;
    Ok(id)
}

fn not_blocked(operation: &'static str, route: &str, key: &str) -> StoreError {
    let message = format!("key {key:?} of route {route:?} is not blocked");
    StoreError::new(StoreErrorKind::NotFound, operation, message)
        .hint("`postroom key ls --blocked` shows the keys that are")
}

fn subject(route: &str, key: &str) -> String {
    serde_json::json!({"route": route, "key": key}).to_string()
}
