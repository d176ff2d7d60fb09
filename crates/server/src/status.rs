//! Is it moving? Every route, relay and store of a configuration; what cannot be asked is shown as down, never left out.

use std::future::Future;
use std::sync::Arc;

use postroom_core::view::{RelayRow, RouteStatus, StoreRow};
use postroom_core::{Desk, RouteDefinition, RouteState, StoreError};
use serde::Serialize;

use crate::config::{Config, StoreConfig};

/// Everything `status` shows.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "http", derive(schemars::JsonSchema), schemars(rename = "Status"))]
pub struct Report {
    /// Every route of every store, registered or only configured.
    pub routes: Vec<RouteStatus>,
    /// Every relay, once per store.
    pub relays: Vec<RelayRow>,
    /// Every store.
    pub stores: Vec<StoreRow>,
    /// Why a store did not answer.
    #[serde(skip)]
    pub unanswered: Vec<StoreError>,
}

/// What of it is asked for.
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

/// Asks every store that is wanted, through the desk that `open` brings.
pub async fn collect<O, F>(config: &Config, part: Part, wanted: impl Fn(&StoreConfig) -> bool, open: O) -> Report
where
    O: Fn(StoreConfig) -> F,
    F: Future<Output = Result<Arc<dyn Desk>, StoreError>>,
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
async fn ask(desk: Result<Arc<dyn Desk>, StoreError>, part: Part, report: &mut Report) -> Result<(), StoreError> {
    let (desk, wants) = (desk?, |one| part == Part::All || part == one);
    let routes = if wants(Part::Routes) { desk.routes().await? } else { Vec::new() };
    let relays = if wants(Part::Relays) { desk.relays().await? } else { Vec::new() };
    let store = if wants(Part::Stores) { Some(desk.store().await?) } else { None };
    report.routes.extend(routes.into_iter().map(|detail| detail.status));
    report.relays.extend(relays);
    report.stores.extend(store);
    Ok(())
}

impl Report {
    /// Routes that are configured, and not registered yet.
    fn add_missing(&mut self, store: &str, configured: &[RouteDefinition]) {
        let note = "registered when a relay starts, or by `store migrate up`";
        let there = |name: &str| self.routes.iter().any(|route| route.store == store && route.route == name);
        let missing: Vec<RouteStatus> = configured
            .iter()
            .filter(|definition| !there(&definition.name))
            .map(|definition| unasked(store, definition, RouteState::New, note))
            .collect();
        self.routes.extend(missing);
    }

    fn add_down(&mut self, store: &StoreConfig, configured: &[RouteDefinition], error: StoreError) {
        let why = &error.message;
        self.routes.extend(configured.iter().map(|route| unasked(&store.name, route, RouteState::Down, why)));
        self.stores.push(StoreRow {
            store: store.name.clone(),
            kind: kind(store.url.scheme()),
            reachable: false,
            schema_version: 0,
            events: 0,
            bytes: None,
            unmatched: 0,
            note: why.clone(),
        });
        self.unanswered.push(error);
    }
}

/// The routes that the configuration gives to a store.
pub fn routes_of(config: &Config, store: &str) -> Vec<RouteDefinition> {
    let here = config.routes.iter().filter(|route| route.stores.iter().any(|s| s == store));
    here.map(|route| route.definition.clone()).collect()
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
pub fn unasked(store: &str, route: &RouteDefinition, state: RouteState, note: &str) -> RouteStatus {
    RouteStatus {
        store: store.to_owned(),
        route: route.name.clone(),
        to: route.to.clone(),
        state,
        due: 0,
        due_estimated: false,
        oldest_due_seconds: 0.0,
        rate: 0.0,
        delivered: 0,
        retrying: 0,
        blocked_keys: 0,
        dead: 0,
        note: note.to_owned(),
    }
}
