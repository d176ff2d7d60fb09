//! The queues of routes that workers pull from, by store and route.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "http")]
use postroom_pull::Queue;
/// Without the transport there is none.
#[cfg(not(feature = "http"))]
use std::convert::Infallible as Queue;

/// Those of the relay that runs; the next one replaces them.
#[derive(Debug, Default)]
pub struct Pulls(Mutex<BTreeMap<(String, String), Arc<Queue>>>);

impl Pulls {
    /// From now on workers of this route are served from here.
    pub fn add(&self, store: &str, route: &str, queue: Arc<Queue>) {
        self.lock().insert((store.to_owned(), route.to_owned()), queue);
    }

    /// The queues of a route: one for each store it serves here.
    pub fn of(&self, route: &str) -> Vec<(String, Arc<Queue>)> {
        let queues = self.lock();
        let here = queues.iter().filter(|((_, name), _)| name == route);
        here.map(|((store, _), queue)| (store.clone(), Arc::clone(queue))).collect()
    }

    /// A relay begins: what was there is another's.
    pub(crate) fn reload(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Arc<Queue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
