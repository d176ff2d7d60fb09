//! Forgetting a route, in turns: first what may be much, last what makes it a route.
//!
//! One that is cut off half way leaves a route whose counts agree: its deliveries that are gone count as discarded.

use postroom_core::{Actor, StoreError};

use super::backend::{self, AdminSession};
use super::record;
use super::turns::Turns;
use crate::clock::timestamp;
use crate::events::signed;
use crate::routes;
use crate::store::Inner;

/// Followers go before what they wait for: they must not be left with nothing in front of them.
/// Served by `postroom_delivery_state`, and `postroom_receipt_first`.
const FOLLOWERS: &str = "delete from postroom_delivery where handle in \
     (select handle from postroom_delivery where route = ?1 and state = 'blocked' limit 5000) returning replay";
const DELIVERIES: &str = "delete from postroom_delivery where handle in \
     (select handle from postroom_delivery where route = ?1 limit 5000) returning replay";
const RECEIPTS: &str = "delete from postroom_receipt where number in \
     (select number from postroom_receipt where route = ?1 limit 5000)";
/// Tries have no index by route, so a turn looks at a stretch of the table.
const ATTEMPTS: &str = "delete from postroom_attempt where route = ?1 and rowid > ?2 and rowid <= ?2 + 5000";

/// What is left after the turns: a little of each, and the route itself, whose highest term is kept.
const LAST: &[&str] = &[
    "insert into postroom_meta (name, value) select 'term', max(term) from postroom_lane where route = ?1 having count(*) > 0 \
     on conflict (name) do update set value = max(value, excluded.value)",
    "delete from postroom_delivery where route = ?1",
    "delete from postroom_receipt where route = ?1",
    "delete from postroom_stat where source = '' and route = ?1",
    "delete from postroom_checkpoint where route = ?1",
    "delete from postroom_lane where route = ?1",
    "delete from postroom_route where name = ?1",
];

pub(super) async fn forget(inner: &Inner, route: &str, unread: u64, actor: &Actor) -> Result<(), StoreError> {
    let number = begin(inner, route, unread, actor).await?;
    let mut turns = Turns::new();
    for statement in [FOLLOWERS, DELIVERIES] {
        while deliveries(inner, &mut turns, route, statement, number).await? > 0 {}
    }
    while receipts(inner, &mut turns, route).await? > 0 {}
    attempts(inner, &mut turns, route).await?;
    turns.next().await;
    let (route, now) = (route.to_owned(), inner.now());
    inner
        .db
        .write("forget", move |conn| {
            Box::pin(async move {
                routes::need_unserved(conn, &route, now, "forget").await?;
                for statement in LAST {
                    sqlx::query(*statement).bind(&route).execute(&mut *conn).await?;
                }
                Ok(())
            })
        })
        .await
}

/// Writes down that it is forgotten; returns the action's number.
async fn begin(inner: &Inner, route: &str, unread: u64, actor: &Actor) -> Result<i64, StoreError> {
    let (route, actor, now) = (route.to_owned(), actor.clone(), inner.now());
    inner
        .db
        .write("forget", move |conn| {
            Box::pin(async move {
                routes::need_unserved(conn, &route, now, "forget").await?;
                record(conn, &actor, "route.forget", &route, unread, now).await
            })
        })
        .await
}

async fn deliveries(
    inner: &Inner,
    turns: &mut Turns,
    route: &str,
    statement: &'static str,
    number: i64,
) -> Result<u64, StoreError> {
    turns.next().await;
    let (route, now) = (route.to_owned(), inner.now());
    inner
        .db
        .write("forget", move |conn| {
            Box::pin(async move {
                routes::need_unserved(conn, &route, now, "forget").await?;
                let gone: Vec<bool> = sqlx::query_scalar(statement).bind(&route).fetch_all(&mut *conn).await?;
                let counted = gone.iter().filter(|replay| !**replay).count() as u64;
                sqlx::query("update postroom_checkpoint set discarded = discarded + ?2 where route = ?1 and lane = 0")
                    .bind(&route)
                    .bind(signed(counted))
                    .execute(&mut *conn)
                    .await?;
                let mut session = AdminSession::new(conn, timestamp(now));
                let added = postroom_admin::audit::add(&mut session, number, gone.len() as u64).await;
                added.map_err(backend::fault)?;
                Ok(gone.len() as u64)
            })
        })
        .await
}

async fn receipts(inner: &Inner, turns: &mut Turns, route: &str) -> Result<u64, StoreError> {
    turns.next().await;
    let (route, now) = (route.to_owned(), inner.now());
    inner
        .db
        .write("forget", move |conn| {
            Box::pin(async move {
                routes::need_unserved(conn, &route, now, "forget").await?;
                Ok(sqlx::query(RECEIPTS).bind(&route).execute(conn).await?.rows_affected())
            })
        })
        .await
}

async fn attempts(inner: &Inner, turns: &mut Turns, route: &str) -> Result<(), StoreError> {
    let mut after = Some(0);
    while let Some(place) = after {
        turns.next().await;
        let route = route.to_owned();
        after = inner
            .db
            .write("forget", move |conn| {
                Box::pin(async move {
                    sqlx::query(ATTEMPTS).bind(&route).bind(place).execute(&mut *conn).await?;
                    let end = place + 5_000;
                    let next: Option<i64> =
                        sqlx::query_scalar("select min(rowid) from postroom_attempt where rowid > ?1")
                            .bind(end)
                            .fetch_one(conn)
                            .await?;
                    Ok(next.map(|next| next - 1))
                })
            })
            .await?;
    }
    Ok(())
}
