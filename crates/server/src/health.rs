//! Is this relay alive, and does it move? From what its engines tell and what was last seen in the stores; asks nothing itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom_core::{ConsumerLags, RouteHealth, RouteState};
use tokio::sync::Notify;
use tokio::time::Instant;

/// An engine goes round at least once per third of its lease; so much longer and something holds it up.
const TURN_MAX: Duration = Duration::from_secs(30);

/// Routes by store and name; without progress until their engines have begun.
type Routes = BTreeMap<(String, String), Option<Arc<RouteProgress>>>;

/// Health of a relay.
#[derive(Debug)]
pub struct Health {
    began: Instant,
    limits: Mutex<Limits>,
    /// Stores and whether they were reached; none until the relay has started.
    stores: Mutex<BTreeMap<String, Result<(), String>>>,
    routes: Mutex<Routes>,
    /// Lag of the consumers of routes, by store and name, where this relay reads it.
    consumers: Mutex<BTreeMap<(String, String), ConsumerLags>>,
    stopping: AtomicBool,
    /// Told when a route begins, ends or changes its state.
    pub(crate) changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How old the oldest due delivery of a route may be that nothing else explains.
    late: Duration,
    lease: Duration,
}

/// The progress of one route.
#[derive(Debug)]
pub(crate) struct RouteProgress {
    began: Instant,
    /// When its engine last went round, in milliseconds since the beginning.
    turned: AtomicU64,
    health: Mutex<RouteHealth>,
    /// Age of the oldest due delivery in milliseconds, as the store last said.
    oldest_due: AtomicU64,
}

/// Health of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteReport {
    /// The store.
    pub store: String,
    /// The route.
    pub route: String,
    /// Health that the engine reports.
    pub health: RouteHealth,
    /// Age of its oldest due delivery.
    pub oldest_due: Duration,
}

impl Health {
    /// Creates the health of a relay that has not started.
    pub fn new(lease: Duration, late: Duration) -> Self {
        Self {
            began: Instant::now(),
            limits: Mutex::new(Limits { late, lease }),
            stores: Mutex::default(),
            routes: Mutex::default(),
            consumers: Mutex::default(),
            stopping: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// A relay with another configuration begins.
    pub(crate) fn reload(&self, lease: Duration, late: Duration) {
        *lock(&self.limits) = Limits { late, lease };
        lock(&self.stores).clear();
        lock(&self.routes).clear();
        lock(&self.consumers).clear();
    }

    /// A store is to be served; whether it has been reached.
    pub(crate) fn store(&self, store: &str, reached: Result<(), String>) {
        lock(&self.stores).insert(store.to_owned(), reached);
    }

    /// A route is to be served.
    pub(crate) fn expect(&self, store: &str, route: &str) {
        lock(&self.routes).entry((store.to_owned(), route.to_owned())).or_default();
    }

    /// A route begins to be served.
    pub(crate) fn route(&self, store: &str, route: &str) -> Arc<RouteProgress> {
        let progress = Arc::new(RouteProgress {
            began: self.began,
            turned: AtomicU64::new(millis(self.began.elapsed())),
            health: Mutex::new(RouteHealth::running()),
            oldest_due: AtomicU64::new(0),
        });
        lock(&self.routes).insert((store.to_owned(), route.to_owned()), Some(Arc::clone(&progress)));
        self.changed.notify_one();
        progress
    }

    /// The engine of a route has ended: it goes round no more, and is not stuck.
    pub(crate) fn ended(&self, progress: &Arc<RouteProgress>) {
        let mut routes = lock(&self.routes);
        if let Some(gone) = routes.values_mut().find(|one| one.as_ref().is_some_and(|one| Arc::ptr_eq(one, progress))) {
            *gone = None;
        }
        self.changed.notify_one();
    }

    /// What the store said of a route's oldest due delivery.
    pub(crate) fn oldest_due(&self, store: &str, route: &str, age: Duration) {
        if let Some(Some(progress)) = lock(&self.routes).get(&(store.to_owned(), route.to_owned())) {
            progress.oldest_due.store(millis(age), Ordering::Relaxed);
        }
    }

    /// What a destination says of its consumers; nothing where another relay asks.
    pub(crate) fn set_consumers(&self, store: &str, route: &str, lags: Option<ConsumerLags>) {
        let (mut consumers, of) = (lock(&self.consumers), (store.to_owned(), route.to_owned()));
        match lags {
            Some(lags) => drop(consumers.insert(of, lags)),
            None => drop(consumers.remove(&of)),
        }
    }

    /// What was last said of the consumers of a route.
    pub(crate) fn consumers(&self, of: &(String, String)) -> Option<ConsumerLags> {
        lock(&self.consumers).get(of).cloned()
    }

    /// The relay was told to stop.
    pub fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Whether it was.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// How many routes are to be served.
    pub(crate) fn expected(&self) -> usize {
        lock(&self.routes).len()
    }

    /// Whether every engine goes round; if not, which does not.
    pub fn alive(&self) -> Result<(), String> {
        let lease = lock(&self.limits).lease;
        self.alive_within(TURN_MAX.max(lease))
    }

    /// Checks that every engine made progress within this time.
    pub(crate) fn alive_within(&self, most: Duration) -> Result<(), String> {
        for ((store, route), progress) in &*lock(&self.routes) {
            let Some(progress) = progress else { continue };
            let still =
                self.began.elapsed().saturating_sub(Duration::from_millis(progress.turned.load(Ordering::Relaxed)));
            if still > most {
                return Err(format!("route {route} of store {store} has made no progress for {} s", still.as_secs()));
            }
        }
        Ok(())
    }

    /// Whether it moves; if not, everything that does not.
    ///
    /// A route that an operator paused or whose destination is down says so itself: it is not the relay that stands still.
    pub fn moving(&self) -> Result<(), Vec<String>> {
        let late = lock(&self.limits).late;
        let mut problems = Vec::new();
        if self.is_stopping() {
            problems.push("it is stopping".to_owned());
        }
        let stores = lock(&self.stores).clone();
        if stores.is_empty() {
            problems.push("the relay has not started".to_owned());
        }
        for (store, reached) in stores {
            problems.extend(reached.err().map(|why| format!("store {store} cannot be reached: {why}")));
        }
        for ((store, route), progress) in &*lock(&self.routes) {
            if progress.is_none() {
                problems.push(format!("route {route} of store {store} is not served yet"));
            }
        }
        for RouteReport { store, route, health, oldest_due } in self.routes() {
            let name = format!("route {route} of store {store}");
            match health.state {
                RouteState::Down | RouteState::Halted | RouteState::CountsDiffer => {
                    problems.push(format!("{name} is {}: {}", health.state.as_str(), health.message));
                }
                RouteState::Running if oldest_due > late => {
                    problems.push(format!("{name} has a delivery that has been due for {} s", oldest_due.as_secs()));
                }
                _ => {}
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Every route that is served, by store and name.
    pub fn routes(&self) -> Vec<RouteReport> {
        let report = |((store, route), progress): (&(String, String), &Option<Arc<RouteProgress>>)| {
            let progress = progress.as_ref()?;
            Some(RouteReport {
                store: store.clone(),
                route: route.clone(),
                health: lock(&progress.health).clone(),
                oldest_due: Duration::from_millis(progress.oldest_due.load(Ordering::Relaxed)),
            })
        };
        lock(&self.routes).iter().filter_map(report).collect()
    }
}

impl RouteProgress {
    pub(crate) fn turned(&self) {
        self.turned.store(millis(self.began.elapsed()), Ordering::Relaxed);
    }

    pub(crate) fn health(&self, health: &RouteHealth) {
        health.clone_into(&mut lock(&self.health));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        let health = Health::new(Duration::from_secs(1), Duration::from_mins(5));
        health.store("main", Ok(()));
        health
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_lives_while_each_of_its_engines_goes_round() {
        let health = health();
        assert_eq!(health.alive(), Ok(()), "no engine is none that is stuck");
        let (one, other) = (health.route("main", "one"), health.route("main", "other"));
        tokio::time::advance(TURN_MAX).await;
        assert_eq!(health.alive(), Ok(()));
        one.turned();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(health.alive(), Err("route other of store main has made no progress for 31 s".to_owned()));
        health.ended(&other);
        assert_eq!(health.alive(), Ok(()), "one that has ended is not waited for");
    }

    #[test]
    fn a_route_that_is_late_is_not_moving_unless_it_says_why() {
        let health = health();
        let progress = health.route("main", "orders");
        assert_eq!(health.moving(), Ok(()));
        health.oldest_due("main", "orders", Duration::from_secs(301));
        assert_eq!(
            health.moving(),
            Err(vec!["route orders of store main has a delivery that has been due for 301 s".to_owned()])
        );
        for (state, moves) in [
            (RouteState::Paused, true),
            (RouteState::BreakerOpen, true),
            (RouteState::Slowed, true),
            (RouteState::Disabled, true),
            (RouteState::Down, false),
            (RouteState::Halted, false),
            (RouteState::CountsDiffer, false),
        ] {
            progress.health(&RouteHealth::new(state, "why"));
            assert_eq!(health.moving().is_ok(), moves, "{state:?}");
        }
    }

    #[test]
    fn nothing_started_a_store_away_or_a_stop_is_not_moving() {
        let fresh = Health::new(Duration::from_secs(1), Duration::from_mins(5));
        assert_eq!(fresh.moving(), Err(vec!["the relay has not started".to_owned()]));
        let health = health();
        health.expect("main", "orders");
        assert_eq!(health.moving(), Err(vec!["route orders of store main is not served yet".to_owned()]));
        health.route("main", "orders");
        health.store("other", Err("connection refused".to_owned()));
        assert!(health.moving().unwrap_err()[0].contains("connection refused"));
        health.store("other", Ok(()));
        assert_eq!(health.moving(), Ok(()));
        health.stopping();
        assert!(health.moving().is_err());
        assert_eq!(health.alive(), Ok(()), "it still works");
    }
}
