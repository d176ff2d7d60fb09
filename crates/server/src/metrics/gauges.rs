//! What only the database knows, asked every ten seconds by one relay of each store: a scrape asks nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postroom_admin::ManagedStore;
use postroom_admin::view::RouteStatus;
use postroom_core::StoreError;
use postroom_core::metrics::{self as names, Metric};
use tokio::time::{Instant, interval, sleep, timeout};

use crate::connect::Ready;
use crate::leader::is_leader;
use crate::monitor::Monitor;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// Until the first heartbeat is in the store nobody knows who asks.
const SOON: Duration = Duration::from_secs(1);
/// Between two questions whether a store answers at all, which is what `/readyz` tells.
const PING: Duration = Duration::from_secs(2);
/// How long a store may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Looks for ever. `boot` is who we are among the relays of a store.
pub(crate) async fn watch(monitor: &Monitor, stores: &BTreeMap<String, Ready>, boot: &str) {
    let tidy = async {
        let mut ticks = interval(Duration::from_secs(5));
        loop {
            ticks.tick().await;
            monitor.metrics.tidy();
        }
    };
    let looks = join_all(stores.iter().map(|(name, store)| look(monitor, name, store.clone(), boot)));
    tokio::join!(tidy, looks);
}

async fn look(monitor: &Monitor, name: &str, store: Ready, boot: &str) {
    let store = store.await;
    monitor.health.store(name, Ok(()));
    let up = monitor.metrics.gauge(&names::STORE_UP, &[name]);
    let note = |reached: Result<(), String>| {
        up.set(if reached.is_ok() { 1.0 } else { 0.0 });
        monitor.health.store(name, reached);
    };
    loop {
        let joined = match within(ask(monitor, name, &store, boot)).await {
            Ok(joined) => {
                note(Ok(()));
                joined
            }
            // The routes of a store that does not answer log it themselves.
            Err(why) => {
                tracing::debug!(store = name, error = why, "gauges of the store could not be read");
                note(Err(why));
                true
            }
        };
        if !joined {
            sleep(SOON).await;
            continue;
        }
        // An idle relay may ask its store for nothing for as long as a third of its lease.
        let next = Instant::now() + EVERY;
        while Instant::now() < next {
            sleep(PING).await;
            note(within(store.admin().relays()).await.map(drop));
        }
    }
}

/// What a store answers, or why it does not.
async fn within<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    match timeout(ANSWER_WITHIN, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}

/// Says whether we have joined the relays of the store.
async fn ask(monitor: &Monitor, name: &str, store: &Arc<dyn ManagedStore>, boot: &str) -> Result<bool, StoreError> {
    let admin = store.admin();
    let first = is_leader(&*admin, boot).await?;
    let gauge = |metric: &Metric, values: &[&str], value: f64| monitor.metrics.gauge(metric, values).set(value);
    if first != Some(true) {
        // Another one tells of them from now on; what is shown is the greatest.
        for route in monitor.health.routes().iter().filter(|route| route.store == name) {
            monitor.health.oldest_due(name, &route.route, Duration::ZERO);
            gauge(&names::OLDEST_DUE_AGE, &[name, &route.route], 0.0);
        }
        return Ok(first.is_some());
    }
    for detail in admin.routes().await? {
        let RouteStatus { route, due, oldest_due_seconds, retrying, blocked_keys, dead, .. } = detail.status;
        let age = oldest_due_seconds.and_then(|age| Duration::try_from_secs_f64(age).ok()).unwrap_or_default();
        monitor.health.oldest_due(name, &route, age);
        // A gauge has no other word for what is not known.
        gauge(&names::OLDEST_DUE_AGE, &[name, &route], oldest_due_seconds.unwrap_or(f64::NAN));
        gauge(&names::DELIVERIES_OPEN, &[name, &route, "due"], due.map_or(f64::NAN, float));
        for (state, count) in [("retrying", retrying), ("dead", dead)] {
            gauge(&names::DELIVERIES_OPEN, &[name, &route, state], float(count));
        }
        gauge(&names::BLOCKED_KEYS, &[name, &route], float(blocked_keys));
        gauge(&names::DEAD_LETTERS, &[name, &route], float(dead));
    }
    if let Some(maintenance) = store.maintenance() {
        let gauges = maintenance.gauges().await?;
        gauge(&names::STORE_HORIZON_AGE, &[name], gauges.horizon_age.as_secs_f64());
        gauge(&names::STORE_OLDEST_WRITER_AGE, &[name], gauges.oldest_writer_age.as_secs_f64());
    }
    Ok(true)
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float; nobody has 2^53 deliveries open")]
fn float(count: u64) -> f64 {
    count as f64
}
