//! Lag of the consumers behind each route, as the destination tells it: read by the relay of the route that joined first, shown as
//! metrics and, with its heartbeats, in the status.
//!
//! Which consumers there are and how a destination is asked is each transport's ([`LagReader`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postroom_admin::Admin;
use postroom_core::metrics as names;
use postroom_core::{ConsumerLag, ConsumerLags, Failure, LagReader, Transport};
use tokio::time::{sleep, timeout};

use crate::connect::Ready;
use crate::leader::leads_route;
use crate::metrics::Gauge;
use crate::monitor::Monitor;

/// Until our first heartbeat is in the store nobody knows who reads.
const SOON: Duration = Duration::from_secs(1);
/// How long a store may take to say who reads.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A route whose destination knows consumers.
pub(crate) struct WatchedRoute {
    store_name: String,
    route: String,
    store: Ready,
    reader: Box<dyn LagReader>,
}

impl WatchedRoute {
    /// None if the destination knows no consumers.
    pub(crate) fn new(store_name: &str, route: &str, store: Ready, transport: &dyn Transport) -> Option<Self> {
        let reader = transport.lag_reader()?;
        Some(Self { store_name: store_name.to_owned(), route: route.to_owned(), store, reader })
    }
}

/// Reads for ever. `boot` is who we are among the relays of a store.
pub(crate) async fn watch(monitor: &Monitor, routes: Vec<WatchedRoute>, boot: &str) {
    join_all(routes.into_iter().map(|route| watch_route(monitor, route, boot))).await;
}

async fn watch_route(monitor: &Monitor, watched: WatchedRoute, boot: &str) {
    let WatchedRoute { store_name, route, store, mut reader } = watched;
    let admin = store.await.admin();
    let mut shown = Shown { monitor, store: &store_name, route: &route, gauges: BTreeMap::new(), last: None };
    let mut leads = None;
    loop {
        // While the store does not answer it stays as it was.
        leads = ask(&admin, boot, &route).await.unwrap_or(leads);
        match leads {
            Some(true) => shown.update(reader.read().await),
            Some(false) => shown.clear(),
            None => {}
        }
        sleep(if leads.is_some() { reader.every() } else { SOON }).await;
    }
}

/// Whether we are the one who reads, nothing before we have joined; an error is no answer.
async fn ask(admin: &Arc<dyn Admin>, boot: &str, route: &str) -> Result<Option<bool>, ()> {
    let answer = timeout(ANSWER_WITHIN, leads_route(&**admin, boot, route)).await;
    answer.map_err(drop)?.map_err(|error| tracing::debug!(route, %error, "the store does not say who reads the lag"))
}

/// What is shown of the consumers of a route.
struct Shown<'m> {
    monitor: &'m Monitor,
    store: &'m str,
    route: &'m str,
    /// Messages and members by destination and consumer: of all that ever were, because a page of metrics forgets none.
    gauges: BTreeMap<(String, String), [Gauge; 2]>,
    last: Option<ConsumerLags>,
}

impl Shown<'_> {
    fn update(&mut self, read: Result<ConsumerLags, Failure>) {
        let before = self.last.take().unwrap_or_default();
        let was = before.message.clone();
        let lags = match read {
            Ok(lags) => lags,
            Err(Failure { code, error, .. }) => before.unknown(format!("{code}: {error}")),
        };
        // Once, and not again when only the words change.
        if !lags.message.is_empty() && first_word(&lags.message) != first_word(&was) {
            let (store, route, reason) = (self.store, self.route, &lags.message);
            tracing::warn!(store, route, reason, "the lag of consumers is unknown, or of some of them");
        }
        self.show(&lags.consumers);
        self.monitor.health.set_consumers(self.store, self.route, Some(lags.clone()));
        self.last = Some(lags);
    }

    /// Another relay reads from now on.
    fn clear(&mut self) {
        if self.last.take().is_some() {
            self.show(&[]);
            self.monitor.health.set_consumers(self.store, self.route, None);
        }
    }

    fn show(&mut self, consumers: &[ConsumerLag]) {
        for gauge in self.gauges.values().flatten() {
            gauge.set(f64::NAN);
        }
        for ConsumerLag { destination, consumer, messages, members } in consumers {
            let metrics = &self.monitor.metrics;
            let labels = [self.store, self.route, destination, consumer];
            let new =
                || [&names::CONSUMER_LAG_MESSAGES, &names::CONSUMER_MEMBERS].map(|name| metrics.gauge(name, &labels));
            let [lag, connected] = self.gauges.entry((destination.clone(), consumer.clone())).or_insert_with(new);
            lag.set(known(*messages));
            connected.set(known(*members));
        }
    }
}

/// The code, where a message begins with one.
fn first_word(message: &str) -> &str {
    message.split(' ').next().unwrap_or_default()
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float; nobody is 2^53 messages behind")]
fn known(count: Option<u64>) -> f64 {
    count.map_or(f64::NAN, |count| count as f64)
}
