//! What lies here, what is leased, and when that ends.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom_core::worker::{NotAnAnswer, Told, outcome};
use postroom_core::{Failure, Outbound};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// How long a lease that finds little waits for more: a batch comes in several pieces.
const LINGER: Duration = Duration::from_millis(2);

type Ready = (Outbound, Box<RawValue>);

/// The deliveries of one route, for workers.
pub struct Queue {
    route: String,
    lease: Duration,
    /// Tells the leases of one run from those of the next.
    run: u64,
    state: Mutex<State>,
    /// Something came.
    arrived: Notify,
    /// A lease ends at another time than before, or all is over.
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Ready>,
    leased: BTreeMap<u64, Out>,
    last: u64,
    over: bool,
}

struct Out {
    outbound: Outbound,
    until: Instant,
}

/// What a worker gets: each delivery as it is told of it.
pub type Leased = Vec<Box<RawValue>>;

/// What became of a worker's answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Deliveries that are settled now.
    pub settled: usize,
    /// Leases that are not: they have ended, or there never were such.
    pub unknown: Vec<String>,
}

impl Queue {
    pub(crate) fn start(route: &str, lease: Duration) -> Arc<Self> {
        let queue = Arc::new(Self {
            route: route.to_owned(),
            lease,
            run: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), route),
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

    /// Leases up to so many deliveries; waits for the first one as long as that. `lease` is the route's own, if none is given.
    pub async fn lease(&self, most: usize, wait: Duration, lease: Option<Duration>) -> Leased {
        let until = Instant::now() + wait;
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
                let leased = self.take(most, lease.unwrap_or(self.lease));
                // Another worker may have been quicker.
                if !leased.is_empty() || over || most == 0 {
                    return leased;
                }
            }
            if timeout_at(until, arrived).await.is_err() {
                return self.take(most, lease.unwrap_or(self.lease));
            }
        }
    }

    fn take(&self, most: usize, lease: Duration) -> Leased {
        let until = Instant::now() + lease;
        let mut state = self.lock();
        let count = state.waiting.len().min(most);
        let batch: Vec<Ready> = state.waiting.drain(..count).collect();
        let mut leased = Vec::with_capacity(count);
        for (outbound, envelope) in batch {
            state.last += 1;
            let number = state.last;
            let (event, attempt) = (&outbound.event, outbound.attempt);
            let told = Told {
                lease: Some(format!("{:x}-{number:x}", self.run)),
                id: &event.id,
                event_type: &event.event_type,
                attempt,
                route: &self.route,
                envelope: &envelope,
            };
            // Nothing in it can fail to be written; a delivery that did would come again.
            let Ok(told) = to_raw_value(&told) else { continue };
            leased.push(told);
            state.leased.insert(number, Out { outbound, until });
        }
        drop(state);
        self.changed.notify_one();
        leased
    }

    /// Hears what came of leased deliveries. Nothing is settled when one of the answers is none; its place is said.
    pub fn settle(&self, answers: Vec<Map<String, Value>>) -> Result<Settled, (usize, NotAnAnswer)> {
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
            match self.number(&lease).and_then(|number| state.leased.remove(&number)) {
                Some(out) => {
                    out.outbound.report(outcome);
                    settled.settled += 1;
                }
                None => settled.unknown.push(lease),
            }
        }
        Ok(settled)
    }

    fn number(&self, lease: &str) -> Option<u64> {
        let (run, number) = lease.split_once('-')?;
        let run = u64::from_str_radix(run, 16).ok()?;
        u64::from_str_radix(number, 16).ok().filter(|_| run == self.run)
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
        let late: Vec<u64> =
            state.leased.iter().filter(|(_, out)| out.until <= now).map(|(number, _)| *number).collect();
        for number in late {
            if let Some(out) = state.leased.remove(&number) {
                let error = "the worker that leased it did not answer in time";
                out.outbound.report(Err(Failure::transient("pull.lease_ended", error)));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unavailable() -> Failure {
    Failure::unavailable("pull.stopping", "the relay stops; nobody had leased it")
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("route", &self.route).finish_non_exhaustive()
    }
}
