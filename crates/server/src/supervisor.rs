//! Tells a supervisor that speaks systemd's protocol how the relay does: ready, what its routes do, alive, stopping.
//!
//! The watchdog is fed for what the engines did: only while each of them has gone round within its period. A relay that
//! waits for a database goes round and lives; one whose loop is stuck does not, whatever else of the process still runs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom_core::{Delivery, Outcome, RouteHealth, RouteState, Verdict};
use postroom_relay::{Observer, RouteObserver};
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How often the watchdog is fed in its period, so that one late feed ends nothing.
const FEEDS_PER_PERIOD: u32 = 4;

/// Watches a relay for its supervisor, and hands everything on to another observer.
#[derive(Debug)]
pub struct Supervisor {
    inner: Arc<dyn Observer>,
    watchdog: Option<Duration>,
    began: Instant,
    engines: Mutex<Vec<Arc<Pulse>>>,
    expected: AtomicUsize,
    stopping: AtomicBool,
    changed: Notify,
}

/// What one engine told last.
#[derive(Debug)]
struct Pulse {
    /// When it went round, in milliseconds since we began.
    turned: AtomicU64,
    state: Mutex<RouteState>,
}

impl Supervisor {
    /// The one that the environment names; none where nobody supervises.
    pub fn from_env(inner: Arc<dyn Observer>) -> Option<Arc<Self>> {
        std::env::var_os("NOTIFY_SOCKET")?;
        Some(Arc::new(Self::new(inner, sd_notify::watchdog_enabled())))
    }

    fn new(inner: Arc<dyn Observer>, watchdog: Option<Duration>) -> Self {
        Self {
            inner,
            watchdog,
            began: Instant::now(),
            engines: Mutex::default(),
            expected: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// How many routes are to be served, each counted once per store: those whose store is not reached yet are waiting.
    pub fn expect(&self, routes: usize) {
        self.expected.store(routes, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Tells that it stops. A relay that stops in good order is told of no more.
    pub fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        say(&[NotifyState::Stopping, NotifyState::Status("stopping: no new deliveries")]);
    }

    /// Tells that the relay is ready once its first route is served, what its routes do whenever that changes, and that
    /// it lives.
    pub async fn tell(&self) -> Infallible {
        let mut ready = false;
        let mut told = String::new();
        let mut feed_at = Instant::now();
        loop {
            if !self.stopping.load(Ordering::Relaxed) && !self.engines().is_empty() {
                let status = self.status();
                if !ready {
                    say(&[NotifyState::Ready, NotifyState::Status(&status)]);
                } else if told != status {
                    say(&[NotifyState::Status(&status)]);
                }
                (ready, told) = (true, status);
            }
            if let Some(period) = self.watchdog
                && feed_at <= Instant::now()
            {
                feed_at = Instant::now() + period / FEEDS_PER_PERIOD;
                if self.lives(period) {
                    say(&[NotifyState::Watchdog]);
                } else {
                    tracing::error!("a route's loop is stuck; the watchdog is not fed");
                }
            }
            let pause = self.watchdog.map_or(Duration::MAX, |_| feed_at.saturating_duration_since(Instant::now()));
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Whether every engine has gone round within this period.
    fn lives(&self, period: Duration) -> bool {
        let now = self.millis();
        let within = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        self.engines().iter().all(|pulse| now.saturating_sub(pulse.turned.load(Ordering::Relaxed)) <= within)
    }

    /// `routes 5: 4 running, 1 breaker_open`.
    fn status(&self) -> String {
        let engines = self.engines();
        let expected = self.expected.load(Ordering::Relaxed).max(engines.len());
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for pulse in engines.iter() {
            *counts.entry(locked(&pulse.state).as_str()).or_default() += 1;
        }
        let running = counts.remove_entry("running");
        let waiting = Some(("waiting", expected - engines.len())).filter(|(_, count)| *count > 0);
        let counts = running.into_iter().chain(counts).chain(waiting);
        let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
        format!("routes {expected}: {}", counts.join(", "))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn engines(&self) -> MutexGuard<'_, Vec<Arc<Pulse>>> {
        locked(&self.engines)
    }
}

impl Observer for Supervisor {
    fn route(self: Arc<Self>, store: &str, route: &str) -> Arc<dyn RouteObserver> {
        let inner = self.inner.clone().route(store, route);
        let pulse = Arc::new(Pulse { turned: self.millis().into(), state: Mutex::new(RouteState::Running) });
        self.engines().push(pulse.clone());
        self.changed.notify_one();
        Arc::new(Watched { inner, pulse, supervisor: self })
    }
}

/// Watches one engine for as long as it runs.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn RouteObserver>,
    pulse: Arc<Pulse>,
    supervisor: Arc<Supervisor>,
}

#[deny(clippy::missing_trait_methods)]
impl RouteObserver for Watched {
    fn tried(&self, delivery: &Delivery, outcome: &Outcome, took: Duration) {
        self.inner.tried(delivery, outcome, took);
    }
    fn settled(&self, delivery: &Delivery, verdict: &Verdict) {
        self.inner.settled(delivery, verdict);
    }
    fn health(&self, health: &RouteHealth) {
        *locked(&self.pulse.state) = health.state;
        self.supervisor.changed.notify_one();
        self.inner.health(health);
    }
    fn in_flight(&self, deliveries: usize) {
        self.inner.in_flight(deliveries);
    }
    fn read(&self, events: usize, took: Duration) {
        self.inner.read(events, took);
    }
    fn wrote(&self, verdicts: usize, took: Duration) {
        self.inner.wrote(verdicts, took);
    }
    fn turned(&self) {
        self.pulse.turned.store(self.supervisor.millis(), Ordering::Relaxed);
        self.inner.turned();
    }
}

impl Drop for Watched {
    /// An engine that has ended goes round no more, and is not stuck.
    fn drop(&mut self) {
        self.supervisor.engines().retain(|pulse| !Arc::ptr_eq(pulse, &self.pulse));
        self.supervisor.changed.notify_one();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A supervisor that does not listen changes nothing for the relay.
fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the supervisor cannot be told");
    }
}

#[cfg(test)]
mod tests {
    use postroom_relay::NoObserver;
    use tokio::time::advance;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    fn supervisor() -> Arc<Supervisor> {
        Arc::new(Supervisor::new(Arc::new(NoObserver), Some(PERIOD)))
    }

    fn health(state: RouteState) -> RouteHealth {
        RouteHealth { state, note: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_lives_while_each_of_its_engines_goes_round() {
        let supervisor = supervisor();
        assert!(supervisor.lives(PERIOD), "no engine is none that is stuck");
        let (one, other) = (supervisor.clone().route("main", "one"), supervisor.clone().route("main", "other"));
        advance(PERIOD).await;
        assert!(supervisor.lives(PERIOD));
        one.turned();
        advance(Duration::from_secs(1)).await;
        assert!(!supervisor.lives(PERIOD), "one goes round, the other does not");
        other.turned();
        assert!(supervisor.lives(PERIOD), "it does again");
        advance(PERIOD + Duration::from_secs(1)).await;
        one.turned();
        drop(other);
        assert!(supervisor.lives(PERIOD), "one that has ended is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn the_status_counts_routes_by_what_they_do() {
        let supervisor = supervisor();
        let routes: Vec<_> = ["a", "b", "c", "d"].map(|route| supervisor.clone().route("main", route)).into();
        assert_eq!(supervisor.status(), "routes 4: 4 running");
        supervisor.expect(6);
        routes[1].health(&health(RouteState::BreakerOpen));
        assert_eq!(supervisor.status(), "routes 6: 3 running, 1 breaker_open, 2 waiting");
        supervisor.expect(4);
        for route in &routes {
            route.health(&health(RouteState::Down));
        }
        assert_eq!(supervisor.status(), "routes 4: 4 down");
    }
}
