//! Replays of a native log: how one begins, and one step of it. The next deliveries are found without a lock, then made due in
//! one transaction that expects the cursor they were found by.

use std::time::Instant;

use jiff::Timestamp;
use postroom_core::{Actor, StoreError, new_id};
use serde_json::json;

use crate::backend::{Backend, Fault, LogBackend, LogSession, SettledStep, read_log, write_log};
use crate::dead::{self, DeadStep};
use crate::replays::{self, Counts, Progress, Replay};
use crate::view::{ReplayKind, ReplayRow, ReplayState};
use crate::{Pace, ReplayOrder};

/// Begins a replay of what is settled or dead now.
pub(crate) async fn start(
    log: &dyn LogBackend,
    tables: &dyn Backend,
    order: &ReplayOrder,
    actor: &Actor,
) -> Result<ReplayRow, StoreError> {
    order.check()?;
    let (id, order, actor) = (new_id(), order.clone(), actor.clone());
    let name = id.clone();
    write_log(log, "replay", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            let until = match order.what {
                ReplayKind::Settled => session.settled_until(order.which.route.as_deref()).await?,
                ReplayKind::Dead => json!({ "since": dead::until(session, now).await? }).to_string(),
            };
            replays::insert(session, &id, &order, &until, &actor, now).await
        })
    })
    .await?;
    replays::need(tables, &name, Counts::With).await.map(|replay| replay.row)
}

/// The next deliveries of a replay.
enum StepDeliveries {
    Settled(SettledStep),
    Dead(DeadStep),
}

/// Makes the next deliveries of a running replay due.
pub(crate) async fn step(
    log: &dyn LogBackend,
    tables: &dyn Backend,
    id: &str,
    at_most: u64,
) -> Result<ReplayRow, StoreError> {
    let Replay { row, until, now } = replays::need(tables, id, Counts::Without).await?;
    let pace = Pace::new(row.rate, row.stepped_at, now);
    let allowed = pace.allowed(at_most);
    if row.state != ReplayState::Running {
        return replays::need(tables, id, Counts::With).await.map(|replay| replay.row);
    }
    if allowed == 0 {
        return Ok(row);
    }
    let (what, which, cursor) = (row.what, row.selection.clone(), row.cursor.clone());
    let next = read_log(log, "replay", move |session| {
        Box::pin(async move {
            Ok(match what {
                ReplayKind::Settled => {
                    StepDeliveries::Settled(session.next_settled(&which, &until, &cursor, allowed).await?)
                }
                ReplayKind::Dead => {
                    StepDeliveries::Dead(dead::next(session, &which, since(&until), &cursor, allowed).await?)
                }
            })
        })
    })
    .await?;
    let (name, cursor, began) = (id.to_owned(), row.cursor, Instant::now());
    write_log(log, "replay", move |session| Box::pin(async move { make(session, &name, &cursor, &next, pace).await }))
        .await?;
    log.wake();
    let row = replays::need(tables, id, Counts::Without).await?.row;
    if row.state != ReplayState::Running {
        return replays::need(tables, id, Counts::With).await.map(|replay| replay.row);
    }
    log.make_room(began.elapsed()).await;
    Ok(row)
}

/// When the last dead letter of a replay died.
fn since(until: &str) -> i64 {
    serde_json::from_str::<serde_json::Value>(until).ok().and_then(|until| until["since"].as_i64()).unwrap_or(0)
}

/// Makes deliveries due and moves the replay on, unless it stands elsewhere by now or does not run.
async fn make(
    session: &mut dyn LogSession,
    id: &str,
    cursor: &str,
    next: &StepDeliveries,
    pace: Pace,
) -> Result<(), Fault> {
    if !replays::stands_at(session, id, cursor).await? {
        return Ok(());
    }
    let now: Timestamp = session.now().await?;
    let (made, to, last) = match next {
        StepDeliveries::Settled(step) => {
            (session.deliver_settled(&step.deliveries, id, now).await?, &step.cursor, step.last)
        }
        StepDeliveries::Dead(step) => (dead::deliver(session, &step.handles, id, now).await?, &step.cursor, step.last),
    };
    replays::advance(session, id, &Progress { from: cursor, to, made, last }, pace, now).await
}
