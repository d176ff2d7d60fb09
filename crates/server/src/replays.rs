//! Works on replays: on one for whoever asked for it, and on those of a store that nobody works on.
//!
//! How much a step may do is the store's to say; here is only who steps, and when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postroom_admin::view::{ReplayRow, ReplayState};
use postroom_admin::{Admin, REPLAY_STEP};
use postroom_core::{StoreError, Timestamp};
use tokio::time::{Instant, sleep, timeout};

use crate::connect::Ready;
use crate::leader::is_leader;

/// Before the next step when the last one had nothing to do: the rate allows none yet.
const WAIT: Duration = Duration::from_millis(100);
/// Between two looks for replays that nobody works on, and how long such a one has not moved.
const LOOK: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(2);
/// Between two questions who joined the store first.
const ASK: Duration = Duration::from_secs(10);
/// Most replays that one relay works on at a time.
const TOGETHER_MAX: usize = 16;

/// Steps until the replay has ended or does not run any more; `shown` hears of every step.
///
/// Dropping it between two steps leaves a replay that others go on with.
pub async fn work(admin: &dyn Admin, id: &str, mut shown: impl FnMut(&ReplayRow)) -> Result<ReplayRow, StoreError> {
    let mut row = admin.step_replay(id, REPLAY_STEP).await?;
    while row.state == ReplayState::Running {
        shown(&row);
        let next = admin.step_replay(id, REPLAY_STEP).await?;
        if next.cursor == row.cursor {
            sleep(WAIT).await;
        }
        row = next;
    }
    shown(&row);
    Ok(row)
}

/// Goes on with replays that nobody works on, for ever, in the stores whose first relay we are. `boot` is who we are.
pub(crate) async fn watch(stores: &BTreeMap<String, Ready>, boot: &str) {
    join_all(stores.iter().map(|(name, store)| watch_store(name, store.clone(), boot))).await;
    std::future::pending::<()>().await;
}

async fn watch_store(name: &str, store: Ready, boot: &str) {
    let admin = store.await.admin();
    let mut seen = Progress::new();
    loop {
        match is_leader(&*admin, boot).await {
            Ok(Some(true)) => {
                let asked = Instant::now();
                while asked.elapsed() < ASK {
                    match look(name, &admin, &mut seen).await {
                        Ok(true) => {}
                        Ok(false) => sleep(LOOK).await,
                        Err(error) => {
                            tracing::debug!(store = name, %error, "replays of the store could not be read");
                            sleep(LOOK).await;
                        }
                    }
                }
            }
            Ok(Some(false)) => sleep(ASK).await,
            Ok(None) | Err(_) => sleep(LOOK).await,
        }
    }
}

/// Progress of replays at the last check, by id.
type Progress = HashMap<String, Place>;

struct Place {
    cursor: String,
    stepped_at: Timestamp,
    since: Instant,
    /// Whether it was ours, then.
    ours: bool,
}

impl Place {
    fn of(row: &ReplayRow, ours: bool) -> Self {
        Self { cursor: row.cursor.clone(), stepped_at: row.stepped_at, since: Instant::now(), ours }
    }

    fn is_at(&self, row: &ReplayRow) -> bool {
        self.cursor == row.cursor && self.stepped_at == row.stepped_at
    }
}

/// Looks once, and works a while on what nobody else works on; says whether there was something.
async fn look(name: &str, admin: &Arc<dyn Admin>, seen: &mut Progress) -> Result<bool, StoreError> {
    let running = admin.replays(Some(ReplayState::Running), TOGETHER_MAX).await?;
    seen.retain(|id, _| running.iter().any(|row| row.id == *id));
    let mut idle = Vec::new();
    for row in running {
        let place = seen.entry(row.id.clone()).or_insert_with(|| Place::of(&row, false));
        if !place.is_at(&row) {
            *place = Place::of(&row, false);
        }
        if place.ours || place.since.elapsed() >= IDLE {
            if !place.ours {
                tracing::info!(store = name, replay = row.id, done = row.done, total = row.total, "replay resumed");
            }
            idle.push(row.id);
        }
    }
    let worked = join_all(idle.iter().map(|id| some_steps(&**admin, id))).await;
    for row in worked {
        let row = row?;
        seen.insert(row.id.clone(), Place::of(&row, true));
    }
    Ok(!idle.is_empty())
}

/// Works on one until the next look.
async fn some_steps(admin: &dyn Admin, id: &str) -> Result<ReplayRow, StoreError> {
    // A step that is cut off here is done or not done; where the replay then stands is asked below.
    if let Ok(ended) = timeout(LOOK, work(admin, id, |_| {})).await {
        return ended;
    }
    admin.step_replay(id, REPLAY_STEP).await
}
