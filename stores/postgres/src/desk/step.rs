//! One step of a replay: what comes next is found without a lock, then made due in one transaction that expects the
//! cursor it was found by.

use std::sync::Arc;

use postroom_core::view::{ReplayKind, ReplayRow, ReplayState};
use postroom_core::{Pace, StoreError};

use super::replays::{Replay, need};
use super::settled::Numbers;
use super::{dead, settled};
use crate::clock::{Time, micros, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::signed;
use crate::store::Inner;

/// The next deliveries of a replay.
pub(super) struct Next {
    pub(super) some: Chosen,
    /// Where the replay then stands.
    pub(super) cursor: String,
    /// Whether there are no more.
    pub(super) last: bool,
}

/// Some deliveries.
pub(super) enum Chosen {
    /// Settled events.
    Settled(Numbers),
    /// Dead letters.
    Dead(dead::Letters),
}

pub(super) async fn step(inner: &Arc<Inner>, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
    let Replay { row, until, now } = need(inner, id).await?;
    let pace = Pace::new(row.rate, row.stepped_at, timestamp(now));
    let allowed = pace.allowed(at_most);
    if row.state != ReplayState::Running || allowed == 0 {
        return Ok(row);
    }
    let (which, cursor, lanes) = (row.selection.clone(), row.cursor.clone(), inner.ring.lanes);
    let next = inner
        .db
        .read("replay", move |session| {
            Box::pin(async move {
                match row.what {
                    ReplayKind::Settled => settled::next(session, lanes, &which, &until, &cursor, allowed).await,
                    ReplayKind::Dead => Ok(dead::next(session, &which, &until, &cursor, allowed).await?),
                }
            })
        })
        .await?;
    let (shared, name, cursor) = (Arc::clone(inner), id.to_owned(), row.cursor);
    inner
        .db
        .write("replay", move |session| {
            Box::pin(async move { make(session, &shared, (&name, &cursor), &next, pace).await })
        })
        .await?;
    inner.wake.wake();
    Ok(need(inner, id).await?.row)
}

/// Makes them due and moves the replay on, unless it stands elsewhere by now or does not run.
async fn make(
    session: &mut Session,
    inner: &Inner,
    (id, cursor): (&str, &str),
    next: &Next,
    pace: Pace,
) -> Result<(), Fault> {
    let fence = session.sql.query(include_str!("../sql/replay_fence.sql")).bind(id.to_owned()).bind(cursor.to_owned());
    if fence.fetch_optional(&mut *session.conn).await?.is_none() {
        return Ok(());
    }
    let now = inner.now(session).await?;
    let made = match &next.some {
        Chosen::Settled(numbers) => settled::make(session, numbers, now).await?,
        Chosen::Dead(letters) => dead::make(session, letters, now).await?,
    };
    let state = if next.last { ReplayState::Done } else { ReplayState::Running };
    let step = session.sql.query(include_str!("../sql/replay_step.sql"));
    step.bind(id.to_owned())
        .bind(cursor.to_owned())
        .bind(next.cursor.clone())
        .bind(signed(made))
        .bind(Time(micros(pace.after(made))))
        .bind(state.as_str())
        .bind(next.last.then_some(Time(now)))
        .execute(&mut *session.conn)
        .await?;
    Ok(())
}
