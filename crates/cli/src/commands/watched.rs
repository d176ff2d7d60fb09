//! What `relay run` tells a person at a terminal besides its log: where routes go, how many events got through, a goodbye.
//!
//! Without a terminal nothing of it is printed: the log is for programs.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom_server::config::Config;
use postroom_server::monitor::Totals;
use tokio::time::{MissedTickBehavior, interval};

use crate::output::{grouped, plain};
use crate::{log, when};

/// Pause between two lines about deliveries.
const PAUSE: Duration = Duration::from_secs(10);
/// Longest name of a destination, in characters.
const TO_MAX: usize = 100;

/// Settled deliveries at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    delivered: u64,
    retried: u64,
    dead: u64,
}

impl Counts {
    fn of(totals: &Totals) -> Self {
        let [delivered, retried, dead] =
            [&totals.delivered, &totals.retried, &totals.dead].map(|number| number.load(Ordering::Relaxed));
        Self { delivered, retried, dead }
    }

    fn since(self, before: Self) -> Self {
        Self {
            delivered: self.delivered - before.delivered,
            retried: self.retried - before.retried,
            dead: self.dead - before.dead,
        }
    }

    fn text(self) -> String {
        let Self { delivered, retried, dead } = self;
        format!("{} delivered, {} retried, {} dead", grouped(delivered), grouped(retried), grouped(dead))
    }
}

/// Says where the routes go, where the relay answers, and how it ends. No routes are all routes.
pub(super) fn hello(config: &Config, routes: &[String]) {
    log::say(greeting(config, routes).as_bytes());
}

fn greeting(config: &Config, routes: &[String]) -> String {
    let served = config.routes.iter().map(|route| &route.definition);
    let served = served.filter(|route| routes.is_empty() || routes.contains(&route.name));
    let served: Vec<String> = served.map(|route| format!("{} → {}", route.name, plain(&route.to, TO_MAX))).collect();
    let answers = match &config.http.listen {
        Some(listen) => format!("http://{} has health, metrics and the API\n", listen.address),
        None => String::new(),
    };
    format!("relay {} delivers {}\n{answers}Ctrl-C stops it\n", config.name, served.join(", "))
}

/// Says every ten seconds how many deliveries were settled, if there were any.
pub(super) async fn count(totals: &Totals) -> Infallible {
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut before = Counts::of(totals);
    loop {
        ticks.tick().await;
        let now = Counts::of(totals);
        if now != before {
            let text = now.since(before).text();
            log::say(format!("{} {text} in the last {} s\n", when::on_the_wall(), PAUSE.as_secs()).as_bytes());
        }
        before = now;
    }
}

/// Says what was done in all.
pub(super) fn goodbye(totals: &Totals) {
    log::say(format!("stopped: {}\n", Counts::of(totals).text()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_since_is_told_in_words() {
        let before = Counts { delivered: 10, retried: 1, dead: 0 };
        let now = Counts { delivered: 1214, retried: 4, dead: 1 };
        assert_eq!(now.since(before).text(), "1,204 delivered, 3 retried, 1 dead");
    }
}
