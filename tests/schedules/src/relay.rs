//! One relay process of a run: the real engine over the real store, with its own clock and its own gate.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::{BreakerPolicy, Budget, Delays, Outbound, RetryPolicy, RouteSpec};
use postroom_relay::{Relay, RelayOptions, Route};
use postroom_testbed::FaultProxy;
use postroom_testbed::proxy::{Gate, Mode, Sign, Waiting};
use postroom_testing::ManualClock;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::destination::{Road, lock};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::sites::Door;

/// How long a stop may take by the relay's clock: longer than a schedule's time, because a stop that is cut short may cost copies.
const GRACE: Duration = Duration::from_hours(1);

pub(crate) struct Process {
    pub(crate) name: String,
    clock: ManualClock,
    frozen: bool,
    /// Time that has passed while it was frozen.
    missed: Duration,
    proxy: Option<FaultProxy>,
    gate: Gate,
    /// Statements at the gate, in the order in which they came.
    pub(crate) waiting: Vec<(Instant, Waiting)>,
    /// Connections of which the server works on something.
    asked: BTreeSet<u64>,
    /// Those of them that wait for a lock.
    blocked: BTreeSet<u64>,
    pub(crate) flights: Arc<Mutex<Vec<Outbound>>>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Process {
    pub(crate) fn start(
        name: String,
        seed: u64,
        plan: &Plan,
        door: Door,
        route: &RouteSpec,
        ledger: &Arc<Mutex<Ledger>>,
    ) -> Self {
        let (clock, flights) = (ManualClock::new(), Arc::default());
        let options = RelayOptions::default()
            .name(name.clone())
            .lease(plan.lease)
            .in_flight_max(plan.in_flight_max)
            .shutdown_grace(GRACE)
            .take(Budget { rows: plan.take_rows, bytes: 1 << 20 })
            .retention(None)
            .drain(false);
        let road = Road { relay: name.clone(), ledger: Arc::clone(ledger), flights: Arc::clone(&flights) };
        let store = Arc::clone(&door.store);
        let retry = RetryPolicy::default()
            .delays(Delays::Exponential { base: plan.retry.0, max: plan.retry.1 })
            .jitter(0.2)
            .attempts(plan.attempts);
        // The breaker has tests of its own; here it would only hide what the store does.
        let breaker = BreakerPolicy::default().failures(1_000).cooldown(Duration::from_millis(20));
        let route = Route::from_spec(route.clone()).retry(retry).breaker(breaker).to(road);
        let relay = Relay::new(store)
            .options(options)
            .clock(Arc::new(clock.clone()))
            .deterministic(name.clone(), seed)
            .route(route);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async move {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            relay.run(stopped).await.expect("the route can be served");
        });
        Self {
            name,
            clock,
            frozen: false,
            missed: Duration::ZERO,
            proxy: door.proxy,
            gate: door.gate,
            waiting: Vec::new(),
            asked: BTreeSet::new(),
            blocked: BTreeSet::new(),
            flights,
            stop: Some(stop),
            task,
        }
    }

    /// Takes in what has happened at the gate; says whether anything has.
    pub(crate) fn take_signs(&mut self) -> bool {
        let mut any = false;
        while let Some(sign) = self.gate.try_next() {
            any = true;
            self.sign(sign);
        }
        any
    }

    fn sign(&mut self, sign: Sign) {
        match sign {
            // The client asks what a type is called, once per connection.
            Sign::Waits(waiting) if waiting.text.starts_with("SELECT pg_type") => drop(waiting),
            Sign::Waits(waiting) => self.waiting.push((Instant::now(), waiting)),
            Sign::Asked(connection) => drop(self.asked.insert(connection)),
            Sign::Answered(connection) => {
                self.asked.remove(&connection);
                self.blocked.remove(&connection);
            }
            Sign::Ended(connection) => {
                self.asked.remove(&connection);
                self.blocked.remove(&connection);
                self.waiting.retain(|(_, waiting)| waiting.connection != connection);
            }
        }
    }

    /// Waits for the next sign.
    pub(crate) async fn next_sign(&mut self) {
        match self.gate.next().await {
            Some(sign) => self.sign(sign),
            // Whoever passed it is gone.
            None => std::future::pending().await,
        }
    }

    /// Whether the server works on something of ours, and does not wait for a lock.
    pub(crate) fn is_busy(&self) -> bool {
        self.asked.iter().any(|connection| !self.blocked.contains(connection))
    }

    /// What the server works on waits for a lock.
    pub(crate) fn blocked(&mut self) {
        self.blocked.extend(&self.asked);
    }

    /// A statement at the gate with this in its text.
    pub(crate) fn at_the_gate(&self, part: &str) -> Option<usize> {
        self.waiting.iter().position(|(_, waiting)| waiting.text.contains(part))
    }

    /// What it is doing, for a trace.
    pub(crate) fn stands(&self) -> String {
        let waiting: Vec<&str> = self.waiting.iter().map(|(_, waiting)| waiting.text.as_str()).collect();
        let (asked, blocked, flights) = (&self.asked, &self.blocked, lock(&self.flights).len());
        format!("{}: at the gate {waiting:?}, asked {asked:?}, blocked {blocked:?}, {flights} on their way", self.name)
    }

    /// Whether something of it waits for a lock.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Somebody has let go of a lock: it may be the one.
    pub(crate) fn may_be_free(&mut self) {
        self.blocked.clear();
    }

    /// Time goes on. A process that is frozen does not see it pass; it finds out afterwards.
    pub(crate) fn advance(&mut self, by: Duration) {
        if self.frozen {
            self.missed += by;
        } else {
            self.clock.advance(by);
        }
    }

    /// The process stands still, as one that is sent SIGSTOP: nothing of it goes on, its connections stay.
    pub(crate) fn freeze(&mut self) {
        self.frozen = true;
    }

    /// It goes on.
    pub(crate) fn thaw(&mut self) {
        self.frozen = false;
        self.clock.advance(std::mem::take(&mut self.missed));
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Lets a statement go on; says which.
    pub(crate) fn let_go(&mut self, which: usize) -> String {
        let (_, waiting) = self.waiting.remove(which);
        let (connection, text) = (waiting.connection, waiting.text.clone());
        if waiting.go_on() {
            self.asked.insert(connection);
        }
        text
    }

    /// All its connections are reset; new ones go through. Where there are none, what waits now fails.
    pub(crate) async fn cut(&mut self) {
        if let Some(proxy) = &self.proxy {
            proxy.play(vec![Mode::Reset, Mode::Pass]).await;
        }
        self.waiting.clear();
    }

    /// The process is killed: its connections end, what was on its way to the destination may or may not arrive.
    pub(crate) fn kill(&self) -> Vec<Outbound> {
        self.task.abort();
        std::mem::take(&mut *lock(&self.flights))
    }

    /// The process is asked to stop.
    pub(crate) fn ask_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_none()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.task.abort();
    }
}
