//! Routes: stopping, starting and renaming them.

use jiff::Timestamp;
use postroom_core::{Actor, StoreError, StoreErrorKind, valid_name};

use crate::audit::record;
use crate::backend::{Fault, LogBackend, LogSession, write_log};
use crate::statement::Statement;

/// Pauses a route; returns whether that changed anything.
pub async fn pause(log: &dyn LogBackend, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    let change = |route: &str, actor: &Actor, now: Timestamp| {
        let change = "update postroom.route set paused_by = $2, pause_reason = $3, paused_at = $4 \
                      where name = $1 and paused_by is null";
        Statement::new(change).bind(route).bind(actor.name.as_str()).bind(actor.reason.clone()).bind(now)
    };
    switch(log, route, actor, "route.pause", change).await
}

/// Resumes a route; returns whether that changed anything.
pub async fn resume(log: &dyn LogBackend, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    let change = |route: &str, _: &Actor, _: Timestamp| {
        let change = "update postroom.route set paused_by = null, pause_reason = null, paused_at = null \
                      where name = $1 and paused_by is not null";
        Statement::new(change).bind(route)
    };
    switch(log, route, actor, "route.resume", change).await
}

/// Asks the relays of a route to try its destination now; returns whether they will, which those of a paused route do not.
pub async fn probe(log: &dyn LogBackend, route: &str, actor: &Actor) -> Result<bool, StoreError> {
    let change = |route: &str, _: &Actor, now: Timestamp| {
        Statement::new("update postroom.route set probe_at = $2 where name = $1 and paused_by is null")
            .bind(route)
            .bind(now)
    };
    switch(log, route, actor, "route.probe", change).await
}

/// Runs a change of a route; returns whether it changed anything.
async fn switch(
    log: &dyn LogBackend,
    route: &str,
    actor: &Actor,
    action: &'static str,
    change: fn(&str, &Actor, Timestamp) -> Statement,
) -> Result<bool, StoreError> {
    let (route, actor) = (route.to_owned(), actor.clone());
    let changed = write_log(log, action, move |session| {
        Box::pin(async move {
            session.need_route(&route, action).await?;
            let now = session.now().await?;
            let changed = session.execute(change(&route, &actor, now)).await?;
            if changed == 1 {
                record(session, &actor, action, &route, 0, now).await?;
            }
            Ok(changed == 1)
        })
    })
    .await?;
    log.wake();
    Ok(changed)
}

/// Statements that give everything of route `$1` the name `$2`: the route first, because lanes refer to it.
const RENAME: [&str; 7] = [
    "update postroom.route set name = $2 where name = $1",
    "update postroom.lane set route = $2 where route = $1",
    "update postroom.checkpoint set route = $2 where route = $1",
    "update postroom.delivery set route = $2 where route = $1",
    "update postroom.attempt set route = $2 where route = $1",
    "update postroom.receipt set route = $2 where route = $1",
    "update postroom.stat set route = $2 where source = '' and route = $1",
];

/// Renames a route, with its position, deliveries, dead letters and receipts.
pub async fn rename(log: &dyn LogBackend, route: &str, to: &str, actor: &Actor) -> Result<(), StoreError> {
    check_new_name(to)?;
    let (route, to, actor) = (route.to_owned(), to.to_owned(), actor.clone());
    write_log(log, "rename", move |session| {
        Box::pin(async move {
            session.need_unserved_route(&route, "rename").await?;
            check_rename(session, &route, &to).await?;
            let now = session.now().await?;
            // The route is locked and exists: how many of the other rows it has does not matter.
            for statement in RENAME {
                session.execute(Statement::new(statement).bind(route.as_str()).bind(to.as_str())).await?;
            }
            record(session, &actor, "route.rename", &format!("{route} to {to}"), 1, now).await.map(drop)
        })
    })
    .await
}

/// Fails if no route can have this name.
pub fn check_new_name(name: &str) -> Result<(), StoreError> {
    if valid_name(name) {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Invalid, "rename", format!("{name:?} cannot be a route's name"))
        .hint("use lower-case letters, digits, `-`, `_` and `.`, at most 63"))
}

/// The error that a route of the new name exists.
pub fn name_is_taken(route: &str, to: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Conflict, "rename", format!("a route of the name {to:?} is registered already"))
        .hint(format!(
            "`postroom route forget {to}` removes it with its position; then rename {route} again, which keeps the position of {route}"
        ))
}

/// The error that a replay, which knows routes by their names, is not finished.
pub fn replay_is_unfinished(route: &str, replay: &str) -> StoreError {
    let message = format!("replay {replay} is not finished, and may have deliveries of route {route:?}");
    StoreError::new(StoreErrorKind::Conflict, "rename", message)
        .hint(format!("wait until it is done, or `postroom replay cancel {replay}`"))
}

async fn check_rename(session: &mut dyn LogSession, route: &str, to: &str) -> Result<(), Fault> {
    let there = Statement::new("select 1 as n from postroom.route where name = $1").bind(to);
    if !session.fetch(there).await?.is_empty() {
        return Err(name_is_taken(route, to).into());
    }
    let replays =
        Statement::new("select id from postroom.replay where source = '' and state in ('running', 'paused') limit 1");
    match session.fetch(replays).await?.first() {
        Some(replay) => Err(replay_is_unfinished(route, &replay.text("id")?).into()),
        None => Ok(()),
    }
}
