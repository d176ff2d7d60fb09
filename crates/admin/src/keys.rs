//! Keys whose events wait behind an earlier one, and how an operator lets them go on.

use jiff::Timestamp;
use postroom_core::{Actor, StoreError, StoreErrorKind};

use crate::audit::record;
use crate::backend::{Fault, LogBackend, LogSession, read_log, write_log};
use crate::deliveries::state;
use crate::row::Row;
use crate::statement::Statement;
use crate::view::{BlockedKey, KeyCursor};

/// Lists blocked keys after a cursor, in the order of the events they wait behind.
pub(crate) async fn blocked(
    log: &dyn LogBackend,
    route: Option<&str>,
    after: Option<&KeyCursor>,
    limit: usize,
) -> Result<Vec<BlockedKey>, StoreError> {
    let (store, route) = (log.store().to_owned(), route.map(str::to_owned));
    // Before every position there is.
    let first = || KeyCursor { position: i64::MIN, route: String::new(), key: String::new() };
    let after = after.cloned().unwrap_or_else(first);
    read_log(log, "keys", move |session| {
        Box::pin(async move {
            let blocked = Statement::new(session.blocked_keys()).bind(route).bind(limit);
            let blocked = blocked.bind(after.position).bind(after.route).bind(after.key);
            let rows = session.fetch(blocked).await?;
            Ok(rows.iter().map(|row| key(&store, row)).collect::<Result<_, _>>()?)
        })
    })
    .await
}

fn key(store: &str, row: &Row) -> Result<BlockedKey, StoreError> {
    Ok(BlockedKey {
        store: store.to_owned(),
        route: row.text("route")?,
        key: row.text("key")?,
        head_id: row.text("id")?,
        head_position: row.int("seq")?,
        head_state: state(row)?,
        attempts: u32::try_from(row.int("attempts")?).unwrap_or(0),
        code: row.maybe_text("code")?,
        error: row.maybe_text("error")?,
        due_at: row.maybe_time("due")?,
        waiting: row.count("waiting")?,
        since: row.time("since")?,
    })
}

/// Lets a key go on while its head keeps its own retries; returns how many events were waiting.
pub(crate) async fn unblock(log: &dyn LogBackend, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
    let (route, key, actor) = (route.to_owned(), key.to_owned(), actor.clone());
    let waiting = write_log(log, "unblock", move |session| {
        Box::pin(async move {
            session.need_route(&route, "unblock").await?;
            session.lock_key(&route, &key).await?;
            let now = session.now().await?;
            let waiting = let_go(session, &route, &key).await?;
            session.release_keys(&route, std::slice::from_ref(&key), now).await?;
            record(session, &actor, "key.unblock", &subject(&route, &key), waiting, now).await?;
            Ok(waiting)
        })
    })
    .await?;
    log.wake();
    Ok(waiting)
}

/// Makes the heads of the key block nobody; returns how many events were waiting.
async fn let_go(session: &mut dyn LogSession, route: &str, key: &str) -> Result<u64, Fault> {
    let blocks = session.dialect().is_set("blocks");
    let waiting = Statement::new(format!(
        "select count(*) as waiting from postroom.delivery \
         where route = $1 and key = $2 and {blocks} and state = 'blocked'"
    ));
    let rows = session.fetch(waiting.bind(route).bind(key)).await?;
    let waiting = rows.first().map(|row| row.count("waiting")).transpose()?.unwrap_or_default();
    let heads = Statement::new(format!(
        "update postroom.delivery set blocks = false \
         where route = $1 and key = $2 and {blocks} and state in ('retrying', 'dead')"
    ));
    if session.execute(heads.bind(route).bind(key)).await? == 0 {
        return Err(not_blocked("unblock", route, key).into());
    }
    Ok(waiting)
}

/// Gives the head of a key up and lets the key go on; returns the head's event id.
pub(crate) async fn skip_head(
    log: &dyn LogBackend,
    route: &str,
    key: &str,
    actor: &Actor,
) -> Result<String, StoreError> {
    let (route, key, actor) = (route.to_owned(), key.to_owned(), actor.clone());
    let id = write_log(log, "skip_head", move |session| {
        Box::pin(async move {
            session.need_route(&route, "skip_head").await?;
            session.lock_key(&route, &key).await?;
            let now = session.now().await?;
            let id = give_up(session, &route, &key, now).await?;
            session.release_keys(&route, std::slice::from_ref(&key), now).await?;
            record(session, &actor, "key.skip_head", &subject(&route, &key), 1, now).await?;
            Ok(id)
        })
    })
    .await?;
    log.wake();
    Ok(id)
}

/// Makes the head of the key a dead letter that blocks nobody; returns its event's id.
async fn give_up(session: &mut dyn LogSession, route: &str, key: &str, now: Timestamp) -> Result<String, Fault> {
    let rows = session.fetch(Statement::new(session.head()).bind(route).bind(key)).await?;
    let Some(head) = rows.first() else { return Err(not_blocked("skip_head", route, key).into()) };
    let id = head.text("id")?;
    // The one that failed may have got through just now; the next one is not to blame.
    if head.flag("healthy")? {
        let message =
            format!("key {key:?} of route {route:?} is not blocked any more: its next event {id:?} has not failed");
        return Err(StoreError::new(StoreErrorKind::NotFound, "skip_head", message)
            .hint("`postroom key ls --blocked` shows the keys that are")
            .into());
    }
    let dead = Statement::new(
        "update postroom.delivery set state = 'dead', blocks = false, due = null, since = $2, \
         code = coalesce(code, 'operator.skipped') where handle = $1",
    );
    session.execute(dead.bind(head.int("handle")?).bind(now)).await?;
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
