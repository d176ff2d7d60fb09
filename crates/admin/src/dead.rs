//! Dead letters: discarding them, and those that a replay makes due again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use postroom_core::{Actor, StoreError};

use crate::Selection;
use crate::audit;
use crate::backend::{Fault, LogBackend, LogSession, read_log, write_log};
use crate::selection::{on_delivery, on_log};
use crate::statement::{Statement, Value};
use crate::summary::Summary;
use crate::view::Affected;

/// Rows changed per transaction of a large action.
const ROWS_AT_ONCE: usize = 5_000;

/// Dead letters with their events.
fn select(session: &dyn LogSession, columns: &str) -> Statement {
    let event = session.event_of_delivery();
    Statement::new(format!("select {columns} from postroom.delivery d {event} where d.state = 'dead'"))
}

/// Dead letters of a selection, in order of their numbers.
#[derive(Default)]
struct Matched {
    handles: Vec<i64>,
    /// Per route, the keys that wait behind one of them.
    held: BTreeMap<String, BTreeSet<String>>,
}

/// Finds the dead letters of a selection, or those among some handles that still are; adds them to the summary.
async fn matched(
    session: &mut dyn LogSession,
    which: &Selection,
    among: Option<&[i64]>,
    summary: &mut Summary,
) -> Result<Matched, Fault> {
    let mut query = select(
        session,
        "d.handle, d.route, d.key, d.blocks, d.since, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key",
    );
    if let Some(among) = among {
        let handles = query.value(among.to_vec());
        query.push(" and ").push(session.dialect().among("d.handle", &handles));
        // One that was tried again meanwhile has died anew.
        on_delivery(&mut query, which);
    } else {
        on_delivery(&mut query, which);
        on_log(&mut query, session.dialect(), which);
    }
    query.push(" order by d.seq, d.route");
    let mut matched = Matched::default();
    for row in &session.fetch(query).await? {
        let route = row.text("route")?;
        matched.handles.push(row.int("handle")?);
        if let (true, Some(key)) = (row.flag("blocks")?, row.maybe_text("key")?) {
            matched.held.entry(route.clone()).or_default().insert(key);
        }
        summary.died(row.time("since")?);
        summary.add(&route, row.maybe_text("ordering_key")?, row.time("occurred_at")?, row.time("appended_at")?);
    }
    Ok(matched)
}

/// Dead letters of a selection, their sum, and when they were found.
struct DeadLetters {
    handles: Vec<i64>,
    affected: Affected,
    now: Timestamp,
}

/// Finds dead letters without a lock.
async fn found(log: &dyn LogBackend, which: &Selection, window: Option<Duration>) -> Result<DeadLetters, StoreError> {
    let which = which.clone();
    read_log(log, "dead", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            let mut summary = Summary::new(window, now);
            let handles = matched(session, &which, None, &mut summary).await?.handles;
            Ok(DeadLetters { handles, affected: summary.finish(), now })
        })
    })
    .await
}

/// Counts the dead letters of a selection.
pub(crate) async fn count(
    log: &dyn LogBackend,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    Ok(found(log, which, inbox_window).await?.affected)
}

/// Discards dead letters, and lets the keys go on that waited for one of them.
pub(crate) async fn discard(
    log: &dyn LogBackend,
    tables: &dyn crate::Backend,
    which: &Selection,
    dry_run: bool,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    // A dead letter that changes meanwhile is left out when its turn comes.
    let DeadLetters { handles, affected, now } = found(log, which, None).await?;
    if dry_run {
        return Ok(affected);
    }
    let number = audit::begin(tables, actor, "dead.discard", which.describe()).await?;
    let mut summary = Summary::new(None, now);
    for (turn, some) in handles.chunks(ROWS_AT_ONCE).enumerate() {
        let began = Instant::now();
        let (some, which, before) = (some.to_vec(), which.clone(), summary.deliveries());
        summary = write_log(log, "dead.discard", move |session| {
            Box::pin(async move {
                session.lock_deliveries(&some).await?;
                let Matched { handles, held } = matched(session, &which, Some(&some), &mut summary).await?;
                session.discard(&handles, now).await?;
                for (route, keys) in held {
                    session.release_keys(&route, &keys.into_iter().collect::<Vec<_>>(), now).await?;
                }
                audit::add(session, number, summary.deliveries() - before).await?;
                Ok(summary)
            })
        })
        .await?;
        log.wake();
        if (turn + 1) * ROWS_AT_ONCE < handles.len() {
            log.make_room(began.elapsed()).await;
        }
    }
    Ok(summary.finish())
}

/// When the last dead letter died, as microseconds; a clock that was set back may be before that.
pub(crate) async fn until(session: &mut dyn LogSession, now: Timestamp) -> Result<i64, Fault> {
    let last = Statement::new("select max(since) as last from postroom.delivery where state = 'dead'");
    let rows = session.fetch(last).await?;
    let last = rows.first().map(|row| row.maybe_int("last")).transpose()?.flatten();
    Ok(last.map_or(now.as_microsecond(), |last| last.max(now.as_microsecond())))
}

/// The next dead letters of a replay.
pub(crate) struct DeadStep {
    pub(crate) handles: Vec<i64>,
    pub(crate) cursor: String,
    pub(crate) last: bool,
}

/// Finds the next dead letters of a replay, of those that had died by `until`. The cursor is a number and a handle.
pub(crate) async fn next(
    session: &mut dyn LogSession,
    which: &Selection,
    until: i64,
    cursor: &str,
    at_most: u64,
) -> Result<DeadStep, Fault> {
    let (seq, handle) = cursor.split_once(' ').unwrap_or_default();
    let mut query = select(session, "d.seq, d.handle");
    query.push(" and (d.seq, d.handle) > (").push_value(seq.parse::<i64>().unwrap_or(0)).push(", ");
    query.push_value(handle.parse::<i64>().unwrap_or(0)).push(") and d.since <= ");
    query.push_value(Value::Time(Some(until)));
    on_delivery(&mut query, which);
    on_log(&mut query, session.dialect(), which);
    query.push(" order by d.seq, d.handle limit ").push_value(at_most);
    let rows = session.fetch(query).await?;
    let mut step = DeadStep { handles: Vec::new(), cursor: cursor.to_owned(), last: (rows.len() as u64) < at_most };
    for row in &rows {
        let handle = row.int("handle")?;
        step.handles.push(handle);
        step.cursor = format!("{} {handle}", row.int("seq")?);
    }
    Ok(step)
}

/// Makes dead letters due again that still are dead, with no failed tries; returns how many those are. A held one goes on
/// holding its key until it is done.
pub(crate) async fn deliver(
    session: &mut dyn LogSession,
    handles: &[i64],
    replay: &str,
    now: Timestamp,
) -> Result<u64, Fault> {
    session.lock_deliveries(handles).await?;
    let among = session.dialect().among("handle", "$1");
    let update = Statement::new(format!(
        "update postroom.delivery set state = 'due', due = $2, attempts = 0, round = round + 1, since = $2, \
         replayed_by = $3 where {among} and state = 'dead'"
    ));
    session.execute(update.bind(handles.to_vec()).bind(now).bind(replay)).await
}
