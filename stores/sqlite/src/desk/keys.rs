//! Keys whose events wait behind an earlier one, and how an operator lets them go on.

use postroom_core::view::{BlockedKey, KeyPlace};
use postroom_core::{Actor, StoreError, StoreErrorKind};
use sqlx::{Row, SqliteConnection};

use super::actions::{Action, record};
use super::dead::parse_state;
use crate::clock::timestamp;
use crate::error::Fault;
use crate::events::{count, signed, text};
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
        .read("keys", move |conn| {
            Box::pin(async move {
                let rows = sqlx::query(include_str!("../sql/blocked_keys.sql"))
                    .bind(route)
                    .bind(signed(limit as u64))
                    .bind(after.position)
                    .bind(after.route)
                    .bind(after.key)
                    .fetch_all(conn)
                    .await?;
                let key = |row: &sqlx::sqlite::SqliteRow| {
                    Ok(BlockedKey {
                        store: store.clone(),
                        route: row.try_get("route")?,
                        key: row.try_get("key")?,
                        head_id: text(row, "id")?.into_owned(),
                        head_position: row.try_get("seq")?,
                        head_state: parse_state(row.try_get("state")?)?,
                        attempts: row.try_get("attempts")?,
                        code: row.try_get("code")?,
                        error: row.try_get("error")?,
                        due_at: row.try_get::<Option<i64>, _>("due")?.map(timestamp),
                        waiting: count(row.try_get("waiting")?),
                        since: timestamp(row.try_get("since")?),
                    })
                };
                Ok(rows.iter().map(key).collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}

pub(super) async fn unblock(inner: &Inner, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
    let (route, key, actor, now) = (route.to_owned(), key.to_owned(), actor.clone(), inner.now());
    let waiting = inner
        .db
        .write("unblock", move |conn| {
            Box::pin(async move {
                routes::need(conn, &route, "unblock").await?;
                let waiting: i64 = sqlx::query_scalar(
                    "select count(*) from postroom_delivery \
                     where route = ?1 and key = ?2 and blocks = 1 and state = 'blocked'",
                )
                .bind(&route)
                .bind(&key)
                .fetch_one(&mut *conn)
                .await?;
                let heads = sqlx::query(
                    "update postroom_delivery set blocks = 0 \
                     where route = ?1 and key = ?2 and blocks = 1 and state in ('retrying', 'dead')",
                )
                .bind(&route)
                .bind(&key)
                .execute(&mut *conn)
                .await?
                .rows_affected();
                if heads == 0 {
                    return Err(not_blocked("unblock", &route, &key).into());
                }
                release(conn, &route, &key, now).await?;
                let action = Action::of(&actor, "key.unblock");
                record(conn, &action, &subject(&route, &key), count(waiting), now).await?;
                Ok(count(waiting))
            })
        })
        .await?;
    inner.wake.wake();
    Ok(waiting)
}

pub(super) async fn skip_head(inner: &Inner, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
    let (route, key, actor, now) = (route.to_owned(), key.to_owned(), actor.clone(), inner.now());
    let id = inner
        .db
        .write("skip_head", move |conn| {
            Box::pin(async move {
                routes::need(conn, &route, "skip_head").await?;
                let id = give_up(conn, &route, &key, now).await?;
                release(conn, &route, &key, now).await?;
                record(conn, &Action::of(&actor, "key.skip_head"), &subject(&route, &key), 1, now).await?;
                Ok(id)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(id)
}

/// Makes the head of the key a dead letter that blocks nobody; returns its event's id.
async fn give_up(conn: &mut SqliteConnection, route: &str, key: &str, now: i64) -> Result<String, Fault> {
    let head = sqlx::query(include_str!("../sql/head.sql")).bind(route).bind(key).fetch_optional(&mut *conn).await?;
    let Some(head) = head else { return Err(not_blocked("skip_head", route, key).into()) };
    let id = text(&head, "id")?.into_owned();
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
    sqlx::query(
        "update postroom_delivery set state = 'dead', blocks = 0, due = null, since = ?2, \
         code = coalesce(code, 'operator.skipped') where handle = ?1",
    )
    .bind(head.try_get::<i64, _>("handle")?)
    .bind(now)
    .execute(conn)
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
