//! What lies here, what is leased, and when that ends.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom_core::{Failure, Outbound};
use postroom_transport_kit::worker::{NotAnAnswer, WorkerRequest, outcome};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use uuid::Uuid;

use crate::PullOptions;

/// How long a lease that finds little waits for more: a batch comes in several pieces.
const LINGER: Duration = Duration::from_millis(2);

type Ready = (Outbound, Box<RawValue>);

/// Queue of the deliveries of a route, for workers.
pub struct Queue {
    route: String,
    lease: Duration,
    lease_max: Duration,
    state: Mutex<State>,
    /// Something came.
    arrived: Notify,
    /// A lease ends at another time than before, or all is over.
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Ready>,
    /// By an id that nobody can guess.
    leased: HashMap<String, Lease>,
    over: bool,
}

struct Lease {
    outbound: Outbound,
    until: Instant,
    /// Who may settle it.
    worker: String,
}

/// Leased deliveries, each as JSON.
pub type Leased = Vec<Box<RawValue>>;

/// Result of a worker's settle request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Number of deliveries that were settled.
    pub settled: usize,
    /// Leases that were not settled because they have ended, never existed, or are another worker's.
    pub unknown: Vec<String>,
    /// Number of `unknown` leases that are another worker's.
    pub foreign: usize,
}

impl Queue {
    pub(crate) fn start(route: &str, options: PullOptions) -> Arc<Self> {
        let queue = Arc::new(Self {
            route: route.to_owned(),
            lease: options.lease,
            lease_max: options.lease_max.max(options.lease),
            state: Mutex::default(),
            arrived: Notify::new(),
            changed: Notify::new(),
        });
        tokio::spawn(Arc::clone(&queue).expire());
        queue
    }

    /// The route.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Leases up to `most` deliveries to a worker, and waits for the first one. `lease` defaults to that of the route, and is
    /// at most its greatest.
    pub async fn lease(&self, worker: &str, most: usize, wait: Duration, lease: Option<Duration>) -> Leased {
        let until = Instant::now() + wait;
        let lease = lease.unwrap_or(self.lease).min(self.lease_max);
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let (waiting, over) = {
                let state = self.lock();
                (state.waiting.len(), state.over)
            };
            if waiting > 0 || over || most == 0 {
                if waiting < most && !over {
                    sleep(LINGER).await;
                }
                let leased = self.take(worker, most, lease);
                // Another worker may have been quicker.
                if !leased.is_empty() || over || most == 0 {
                    return leased;
                }
            }
            if timeout_at(until, arrived).await.is_err() {
                return self.take(worker, most, lease);
            }
        }
    }

    fn take(&self, worker: &str, most: usize, lease: Duration) -> Leased {
        let until = Instant::now() + lease;
        let mut state = self.lock();
        let count = state.waiting.len().min(most);
        let batch: Vec<Ready> = state.waiting.drain(..count).collect();
        let mut leased = Vec::with_capacity(count);
        for (outbound, envelope) in batch {
            let id = Uuid::new_v4().simple().to_string();
            let (event, attempt) = (&outbound.event, outbound.attempt);
            let told = WorkerRequest {
                lease: Some(id.clone()),
                id: &event.id,
                event_type: &event.event_type,
                attempt,
                route: &self.route,
                envelope: &envelope,
            };
            // Nothing in it can fail to be written; a delivery that did would come again.
            let Ok(told) = to_raw_value(&told) else { continue };
            leased.push(told);
            state.leased.insert(id, Lease { outbound, until, worker: worker.to_owned() });
        }
        drop(state);
        self.changed.notify_one();
        leased
    }

    /// Settles deliveries that are leased to this worker. If an answer is not valid, nothing is settled, and the error names
    /// its place.
    pub fn settle(&self, worker: &str, answers: Vec<Map<String, Value>>) -> Result<Settled, (usize, NotAnAnswer)> {
        let mut read = Vec::with_capacity(answers.len());
        for (place, mut fields) in answers.into_iter().enumerate() {
            let lease = match fields.remove("lease") {
                Some(Value::String(lease)) => lease,
                Some(_) => return Err((place, NotAnAnswer::WrongType("lease"))),
                None => return Err((place, NotAnAnswer::Missing("lease"))),
            };
            read.push((lease, outcome(&mut fields, "pull.error").map_err(|why| (place, why))?));
        }
        let mut settled = Settled::default();
        let mut state = self.lock();
        for (lease, outcome) in read {
            match state.leased.entry(lease) {
                Entry::Occupied(entry) if entry.get().worker == worker => {
                    entry.remove().outbound.report(outcome);
                    settled.settled += 1;
                }
                Entry::Occupied(entry) => {
                    settled.unknown.push(entry.key().clone());
                    settled.foreign += 1;
                }
                Entry::Vacant(entry) => settled.unknown.push(entry.into_key()),
            }
        }
        Ok(settled)
    }

    pub(crate) fn put(&self, ready: Vec<Ready>) {
        let mut state = self.lock();
        if state.over {
            Outbound::report_all(ready.into_iter().map(|(outbound, _)| outbound), &unavailable());
            return;
        }
        state.waiting.extend(ready);
        drop(state);
        self.arrived.notify_waiters();
    }

    /// What nobody has leased goes back; what is leased may still be settled.
    pub(crate) fn give_back(&self) {
        let mut state = self.lock();
        state.over = true;
        let waiting: Vec<Ready> = state.waiting.drain(..).collect();
        drop(state);
        Outbound::report_all(waiting.into_iter().map(|(outbound, _)| outbound), &unavailable());
        self.arrived.notify_waiters();
    }

    /// Everything goes back.
    pub(crate) fn end(&self) {
        self.give_back();
        let leased = std::mem::take(&mut self.lock().leased);
        Outbound::report_all(leased.into_values().map(|out| out.outbound), &unavailable());
        self.changed.notify_one();
    }

    /// Ends leases in time, until all is over.
    async fn expire(self: Arc<Self>) {
        loop {
            let next = {
                let state = self.lock();
                if state.over && state.leased.is_empty() {
                    return;
                }
                state.leased.values().map(|out| out.until).min()
            };
            match next {
                Some(next) => {
                    tokio::select! {
                        () = sleep_until(next) => self.end_leases(),
                        () = self.changed.notified() => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    fn end_leases(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        for (_, out) in state.leased.extract_if(|_, out| out.until <= now) {
            let error = "the worker that leased it did not answer in time";
            out.outbound.report(Err(Failure::crashed("pull.lease_ended", error)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unavailable() -> Failure {
    Failure::unavailable("pull.stopping", "the relay stopped before a worker leased the event")
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("route", &self.route).finish_non_exhaustive()
    }
}
