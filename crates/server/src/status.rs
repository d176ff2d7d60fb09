//! Is it moving? Every route, relay and store of a configuration; what cannot be asked is shown as down, never left out.

use std::future::Future;
use std::sync::Arc;

use postroom_admin::Admin;
use postroom_admin::view::{RelayRow, RouteStatus, StoreRow};
use postroom_core::{ConsumerLags, RouteSpec, RouteState, StoreError, Timestamp};
use serde::Serialize;

use crate::config::{Config, StoreConfig};

/// Everything `status` shows.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "http", derive(schemars::JsonSchema), schemars(rename = "Status"))]
pub struct Report {
    /// Every route of every store, registered or only configured.
    pub routes: Vec<RouteLine>,
    /// Every relay, once per store.
    pub relays: Vec<RelayRow>,
    /// Every store.
    pub stores: Vec<StoreRow>,
    /// Why a store did not answer.
    #[serde(skip)]
    pub unanswered: Vec<StoreError>,
}

/// Route in the status. Numbers of a route whose store did not answer, or that is not registered yet, are null.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(schemars::JsonSchema))]
pub struct RouteLine {
    /// Name of the store.
    pub store: String,
    /// Name of the route.
    pub route: String,
    /// Destination of the route.
    pub to: String,
    /// State of the route.
    pub state: RouteState,
    /// Time since which the route is in this state, if known.
    pub since: Option<Timestamp>,
    /// Time of the next attempt at a destination that is down.
    pub next_try: Option<Timestamp>,
    /// Deliveries that are due; exact up to 10,000. Null if that is not known.
    pub due: Option<u64>,
    /// Whether `due` is an estimate.
    pub due_estimated: bool,
    /// Age of the oldest due delivery, in seconds; 0 if there is none, null if that is not known.
    pub oldest_due_seconds: Option<f64>,
    /// Deliveries per second over the last seconds, replays included, as live relays count them.
    pub rate: Option<f64>,
    /// Mean of deliveries per second over the last minute.
    pub rate_1m: Option<f64>,
    /// Deliveries since the route was registered, replays included.
    pub delivered: Option<u64>,
    /// Deliveries that wait for another attempt.
    pub retrying: Option<u64>,
    /// Keys whose events wait behind an earlier event.
    pub blocked_keys: Option<u64>,
    /// Number of dead letters.
    pub dead: Option<u64>,
    /// Reason why the route is not running, or a hint; may be empty.
    pub message: String,
    /// Lag of the destination's consumers, as a relay last read it; null if the transport knows no consumers, or no relay reads it.
    pub consumers: Option<ConsumerLags>,
}

impl From<RouteStatus> for RouteLine {
    fn from(status: RouteStatus) -> Self {
        Self {
            store: status.store,
            route: status.route,
            to: status.to,
            state: status.state,
            since: status.since,
            next_try: status.next_try,
            due: status.due,
            due_estimated: status.due_estimated,
            oldest_due_seconds: status.oldest_due_seconds,
            rate: Some(status.rate),
            rate_1m: Some(status.rate_1m),
            delivered: Some(status.delivered),
            retrying: Some(status.retrying),
            blocked_keys: Some(status.blocked_keys),
            dead: Some(status.dead),
            message: status.message,
            consumers: status.consumers,
        }
    }
}

/// Part of the status to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything.
    All,
    /// Routes only.
    Routes,
    /// Relays only.
    Relays,
    /// Stores only.
    Stores,
}

/// Asks every store that is wanted, through the admin that `open` brings.
pub async fn collect<O, F>(config: &Config, part: Part, wanted: impl Fn(&StoreConfig) -> bool, open: O) -> Report
where
    O: Fn(StoreConfig) -> F,
    F: Future<Output = Result<Arc<dyn Admin>, StoreError>>,
{
    let mut report = Report::default();
    for store in config.stores.iter().filter(|store| wanted(store)) {
        let configured = routes_of(config, &store.name);
        match ask(open(store.clone()).await, part, &mut report).await {
            Ok(()) => report.add_missing(&store.name, &configured),
            Err(error) => report.add_down(store, &configured, error),
        }
    }
    report
}

/// All of a store's answers, or none.
async fn ask(admin: Result<Arc<dyn Admin>, StoreError>, part: Part, report: &mut Report) -> Result<(), StoreError> {
    let (admin, wants) = (admin?, |one| part == Part::All || part == one);
    let routes = if wants(Part::Routes) { admin.routes().await? } else { Vec::new() };
    let relays = if wants(Part::Relays) { admin.relays().await? } else { Vec::new() };
    let store = if wants(Part::Stores) { Some(admin.store().await?) } else { None };
    report.routes.extend(routes.into_iter().map(|detail| detail.status.into()));
    report.relays.extend(relays);
    report.stores.extend(store);
    Ok(())
}

impl Report {
    /// Routes that are configured, and not registered yet.
    fn add_missing(&mut self, store: &str, configured: &[RouteSpec]) {
        let message = "registered when a relay starts, or by `store migrate up`";
        let there = |name: &str| self.routes.iter().any(|route| route.store == store && route.route == name);
        let missing: Vec<RouteLine> = configured
            .iter()
            .filter(|definition| !there(&definition.name))
            .map(|definition| unasked(store, definition, RouteState::New, message))
            .collect();
        self.routes.extend(missing);
    }

    fn add_down(&mut self, store: &StoreConfig, configured: &[RouteSpec], error: StoreError) {
        let why = &error.message;
        self.routes.extend(configured.iter().map(|route| unasked(&store.name, route, RouteState::Down, why)));
        self.stores.push(StoreRow {
            store: store.name.clone(),
            kind: kind(store.url.scheme()),
            reachable: false,
            schema_version: None,
            events: None,
            events_estimated: false,
            bytes: None,
            unmatched: None,
            message: why.clone(),
        });
        self.unanswered.push(error);
    }
}

/// The routes that the configuration gives to a store.
pub fn routes_of(config: &Config, store: &str) -> Vec<RouteSpec> {
    config.routes_of(store).into_iter().map(|route| route.definition.clone()).collect()
}

/// What a store is, by its URL, when it cannot be asked.
fn kind(scheme: &str) -> &'static str {
    match scheme {
        "sqlite" => "sqlite",
        "postgres" | "postgresql" => "postgres",
        "memory" => "memory",
        _ => "unknown",
    }
}

/// A route of which the store says nothing.
pub fn unasked(store: &str, route: &RouteSpec, state: RouteState, message: &str) -> RouteLine {
    RouteLine {
        store: store.to_owned(),
        route: route.name.clone(),
        to: route.to.clone(),
        state,
        since: None,
        next_try: None,
        due: None,
        due_estimated: false,
        oldest_due_seconds: None,
        rate: None,
        rate_1m: None,
        delivered: None,
        retrying: None,
        blocked_keys: None,
        dead: None,
        message: message.to_owned(),
        consumers: None,
    }
}
