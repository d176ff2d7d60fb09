//! Forgetting a route, in turns: first what may be much, last what makes it a route.
//!
//! One that is cut off half way leaves a route whose counts agree: its deliveries that are gone count as discarded.

use std::sync::Arc;

use postroom_core::{Actor, StoreError};

use super::{backend, lanes, record};
use crate::events::count;
use crate::routes;
use crate::store::Inner;

/// Followers go before what they wait for: they must not be left with nothing in front of them.
const TURNS: [&str; 2] = [include_str!("../sql/forget_followers.sql"), include_str!("../sql/forget_deliveries.sql")];

/// What is left after the turns: a little of each, and the route itself, whose highest term is kept.
const LAST: &[&str] = &[
    "insert into postroom.meta (name, value) \
     select 'term', max(term)::text from postroom.lane where route = $1 having count(*) > 0 \
     on conflict (name) do update set value = greatest(meta.value::int8, excluded.value::int8)::text",
    "delete from postroom.delivery where route = $1",
    "delete from postroom.receipt where route = $1",
    "delete from postroom.attempt where route = $1",
    "delete from postroom.stat where source = '' and route = $1",
    "delete from postroom.checkpoint where route = $1",
    "delete from postroom.lane where route = $1",
    "delete from postroom.route where name = $1",
];

pub(super) async fn forget(inner: &Arc<Inner>, route: &str, unread: u64, actor: &Actor) -> Result<(), StoreError> {
    let number = begin(inner, route, unread, actor).await?;
    for statement in TURNS {
        while deliveries(inner, route, statement, number).await? > 0 {}
    }
    for partition in 0..inner.partitioning.partitions {
        while some(inner, route, &format!("receipt_{partition}")).await? > 0 {}
    }
    while some(inner, route, "attempt").await? > 0 {}
    let (shared, route) = (Arc::clone(inner), route.to_owned());
    inner
        .db
        .write("forget", move |session| {
            Box::pin(async move {
                routes::need_unserved(session, &shared, &route, "forget").await?;
                for statement in LAST {
                    session.sql.query(statement).bind(route.clone()).execute(&mut *session.conn).await?;
                }
                Ok(())
            })
        })
        .await
}

/// Writes down that it is forgotten; returns the action's number.
async fn begin(inner: &Arc<Inner>, route: &str, unread: u64, actor: &Actor) -> Result<i64, StoreError> {
    let (shared, route, actor) = (Arc::clone(inner), route.to_owned(), actor.clone());
    inner
        .db
        .write("forget", move |session| {
            Box::pin(async move {
                routes::need_unserved(session, &shared, &route, "forget").await?;
                let now = shared.now(session).await?;
                record(session, &actor, "route.forget", &route, unread, now).await
            })
        })
        .await
}

async fn deliveries(inner: &Arc<Inner>, route: &str, statement: &'static str, number: i64) -> Result<u64, StoreError> {
    let (shared, route) = (Arc::clone(inner), route.to_owned());
    inner
        .db
        .write("forget", move |session| {
            Box::pin(async move {
                routes::need_unserved(session, &shared, &route, "forget").await?;
                lanes::lock_all(session, &route).await?;
                let gone: i64 = session.sql.scalar(statement).bind(route).fetch_one(&mut *session.conn).await?;
                postroom_admin::audit::add(session, number, count(gone)).await.map_err(backend::fault)?;
                Ok(count(gone))
            })
        })
        .await
}

/// Deletes some rows of the route from a table of which it may have many.
async fn some(inner: &Arc<Inner>, route: &str, table: &str) -> Result<u64, StoreError> {
    let text = format!(
        "delete from postroom.{table} \
         where ctid = any(array(select ctid from postroom.{table} where route = $1 limit 5000))"
    );
    let (shared, route) = (Arc::clone(inner), route.to_owned());
    inner
        .db
        .write("forget", move |session| {
            Box::pin(async move {
                routes::need_unserved(session, &shared, &route, "forget").await?;
                let delete = session.sql.query_made(session.sql.made(&text).into()).bind(route);
                Ok(delete.execute(&mut *session.conn).await?.rows_affected())
            })
        })
        .await
}
