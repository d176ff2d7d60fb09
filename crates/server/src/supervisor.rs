//! Tells a supervisor that speaks systemd's protocol how the relay does: ready, what its routes do, alive, stopping.
//!
//! The watchdog is fed for what the engines did: only while each of them has gone round within its period. A relay that
//! waits for a database goes round and lives; one whose loop is stuck does not, whatever else of the process still runs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Instant, sleep};

use crate::health::Health;

/// How often the watchdog is fed in its period, so that one late feed ends nothing.
const FEEDS_PER_PERIOD: u32 = 4;

/// Watches a relay for its supervisor.
#[derive(Debug)]
pub struct Supervisor {
    health: Arc<Health>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names; none where nobody supervises.
    pub fn from_env(health: Arc<Health>) -> Option<Self> {
        std::env::var_os("NOTIFY_SOCKET")?;
        Some(Self { health, watchdog: sd_notify::watchdog_enabled() })
    }

    /// Tells that the relay is ready once its first route is served, what its routes do whenever that changes, that it
    /// lives, and that it stops: after that nothing but that it lives.
    pub async fn tell(&self) -> Infallible {
        let (mut ready, mut stopping, mut told) = (false, false, String::new());
        let mut subscription_at = Instant::now();
        loop {
            let status = status(&self.health);
            if self.health.is_stopping() && !stopping {
                stopping = true;
                say(&[NotifyState::Stopping, NotifyState::Status("stopping: no new deliveries")]);
            } else if !stopping && !self.health.routes().is_empty() && told != status {
                let state = NotifyState::Status(&status);
                if ready {
                    say(&[state]);
                } else {
                    say(&[NotifyState::Ready, state]);
                }
                (ready, told) = (true, status);
            }
            if let Some(period) = self.watchdog
                && subscription_at <= Instant::now()
            {
                subscription_at = Instant::now() + period / FEEDS_PER_PERIOD;
                match self.health.alive_within(period) {
                    Ok(()) => say(&[NotifyState::Watchdog]),
                    Err(why) => tracing::error!(why, "systemd watchdog is not notified"),
                }
            }
            let pause =
                self.watchdog.map_or(Duration::MAX, |_| subscription_at.saturating_duration_since(Instant::now()));
            tokio::select! {
                () = self.health.changed.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }
}

/// `routes 5: 4 running, 1 breaker_open`.
fn status(health: &Health) -> String {
    let routes = health.routes();
    let expected = health.expected();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for route in &routes {
        *counts.entry(route.health.state.as_str()).or_default() += 1;
    }
    let running = counts.remove_entry("running");
    let waiting = Some(("waiting", expected.saturating_sub(routes.len()))).filter(|(_, count)| *count > 0);
    let counts = running.into_iter().chain(counts).chain(waiting);
    let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
    format!("routes {expected}: {}", counts.join(", "))
}

/// A supervisor that does not listen changes nothing for the relay.
fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "supervisor cannot be notified");
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::{RouteHealth, RouteState};

    use super::*;

    #[test]
    fn the_status_counts_routes_by_what_they_do() {
        let health = Health::new(Duration::from_secs(30), Duration::from_mins(5));
        let pulses: Vec<_> = ["a", "b", "c", "d"].map(|route| health.route("main", route)).into();
        assert_eq!(status(&health), "routes 4: 4 running");
        health.expect("other", "a");
        health.expect("other", "b");
        pulses[1].health(&RouteHealth::new(RouteState::BreakerOpen, ""));
        assert_eq!(status(&health), "routes 6: 3 running, 1 breaker_open, 2 waiting");
    }
}
