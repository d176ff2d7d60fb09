//! What only the database knows, asked every ten seconds by one relay of each store: a scrape asks nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::metrics::{self as names, Metric};
use postroom_core::view::RouteStatus;
use postroom_core::{Store, StoreError};
use tokio::time::{interval, sleep, timeout};

use crate::first::is_first;
use crate::operating::Operating;
use crate::reach::Ready;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// Until the first heartbeat is in the store nobody knows who asks.
const SOON: Duration = Duration::from_secs(1);
/// How long a store may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Looks for ever. `boot` is who we are among the relays of a store.
pub(crate) async fn watch(operating: &Operating, stores: &BTreeMap<String, Ready>, boot: &str) {
    let tidy = async {
        let mut beat = interval(Duration::from_secs(5));
        loop {
            beat.tick().await;
            operating.metrics.tidy();
        }
    };
    let looks = join_all(stores.iter().map(|(name, store)| look(operating, name, store.clone(), boot)));
    tokio::join!(tidy, looks);
}

async fn look(operating: &Operating, name: &str, store: Ready, boot: &str) {
    let store = store.await;
    operating.health.store(name, Ok(()));
    let up = operating.metrics.gauge(&names::STORE_UP, &[name]);
    loop {
        let answer = timeout(ANSWER_WITHIN, ask(operating, name, &store, boot)).await;
        up.set(if matches!(answer, Ok(Ok(_))) { 1.0 } else { 0.0 });
        let joined = match answer {
            Ok(Ok(joined)) => joined,
            // The routes of a store that does not answer say so themselves.
            Ok(Err(error)) => {
                tracing::debug!(store = name, %error, "the store did not say how it stands");
                true
            }
            Err(_) => true,
        };
        sleep(if joined { EVERY } else { SOON }).await;
    }
}

/// Says whether we have joined the relays of the store.
async fn ask(operating: &Operating, name: &str, store: &Arc<dyn Store>, boot: &str) -> Result<bool, StoreError> {
    let desk = store.desk();
    let first = is_first(&*desk, boot).await?;
    let gauge = |metric: &Metric, values: &[&str], value: f64| operating.metrics.gauge(metric, values).set(value);
    if first != Some(true) {
        // Another one tells of them from now on; what is shown is the greatest.
        for route in operating.health.routes().iter().filter(|route| route.store == name) {
            operating.health.oldest_due(name, &route.route, Duration::ZERO);
            gauge(&names::OLDEST_DUE_AGE, &[name, &route.route], 0.0);
        }
        return Ok(first.is_some());
    }
    for detail in desk.routes().await? {
        let RouteStatus { route, due, oldest_due_seconds, retrying, blocked_keys, dead, .. } = detail.status;
        let age = Duration::try_from_secs_f64(oldest_due_seconds).unwrap_or_default();
        operating.health.oldest_due(name, &route, age);
        gauge(&names::OLDEST_DUE_AGE, &[name, &route], oldest_due_seconds);
        for (state, count) in [("due", due), ("retrying", retrying), ("dead", dead)] {
            gauge(&names::DELIVERIES_OPEN, &[name, &route, state], float(count));
        }
        gauge(&names::BLOCKED_KEYS, &[name, &route], float(blocked_keys));
        gauge(&names::DEAD_LETTERS, &[name, &route], float(dead));
    }
    if let Some(upkeep) = store.upkeep() {
        let vitals = upkeep.vitals().await?;
        gauge(&names::STORE_HORIZON_AGE, &[name], vitals.horizon_age.as_secs_f64());
        gauge(&names::STORE_OLDEST_WRITER_AGE, &[name], vitals.oldest_writer_age.as_secs_f64());
    }
    Ok(true)
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float; nobody has 2^53 deliveries open")]
fn float(count: u64) -> f64 {
    count as f64
}
