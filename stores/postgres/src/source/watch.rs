//! Looks for routes that found nothing: one look for all of them, and none of their engines is woken for it.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::change_probe::{ChangeProbe, IdleSnapshot};
use crate::store::Inner;

/// How long a route is looked for when its engine does not come back.
const WATCHED_MAX: Duration = Duration::from_secs(15);

/// The routes that wait, and the task that looks for them.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// By relay and route: a process may run several relays.
    routes: BTreeMap<(String, String), Watched>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Watched {
    quiet: Arc<IdleSnapshot>,
    every: Duration,
    until: Instant,
}

impl Watch {
    /// Looks for a route from now on.
    pub(super) fn begin(inner: &Arc<Inner>, relay: &str, route: &str, quiet: Arc<IdleSnapshot>, every: Duration) {
        let mut watch = lock(inner);
        let key = (relay.to_owned(), route.to_owned());
        watch.routes.insert(key, Watched { quiet, every, until: Instant::now() + WATCHED_MAX });
        if watch.task.as_ref().is_none_or(JoinHandle::is_finished) {
            // Weak, so that it does not keep the store.
            let inner = Arc::downgrade(inner);
            watch.task = Some(tokio::spawn(async move {
                while let Some(every) = inner.upgrade().and_then(|inner| pause(&inner)) {
                    tokio::time::sleep(every).await;
                    let Some(inner) = inner.upgrade() else { return };
                    look(&inner).await;
                }
            }));
        }
    }

    /// The route looks by itself again.
    pub(super) fn end(inner: &Arc<Inner>, relay: &str, route: &str) {
        lock(inner).routes.remove(&(relay.to_owned(), route.to_owned()));
    }
}

/// Until the next look; none when nobody waits, and then the task is over.
fn pause(inner: &Inner) -> Option<Duration> {
    let mut watch = lock(inner);
    watch.routes.retain(|_, watched| Instant::now() < watched.until);
    let every = watch.routes.values().map(|watched| watched.every).min();
    if every.is_none() {
        // Said under the lock: whoever comes next starts another one.
        watch.task = None;
    }
    // Relays that started together need not look together.
    every.map(|every| every.mul_f64(1.0 - 0.05 * fastrand::f64()))
}

/// Wakes the engines if one of the routes may find something; they look for themselves then, and find out about errors too.
async fn look(inner: &Arc<Inner>) {
    let felt = ChangeProbe::probe(inner).await;
    let mut watch = lock(inner);
    let changed = felt.map_or(true, |(fingerprint, now)| {
        watch.routes.iter().any(|((_, route), watched)| !watched.quiet.holds(&fingerprint, now, route))
    });
    if changed {
        watch.routes.clear();
        drop(watch);
        inner.wake.wake();
    }
}

fn lock(inner: &Inner) -> MutexGuard<'_, Watch> {
    inner.change_probe.watch.lock().unwrap_or_else(PoisonError::into_inner)
}
