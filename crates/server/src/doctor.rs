//! What `postroom doctor` finds out: of every store and its database, of every route and its destination, of the relays and of
//! the configuration. All are asked at once; what cannot be asked is a finding, never the end. Nothing is changed.

mod codes;
mod config;
mod files;
mod relays;
mod stores;

use futures_util::future::join_all;
use postroom_core::Diagnostic;
use postroom_core::codes::plain;

pub(crate) use codes::CODES;

use crate::config::Config;
use crate::preflight;

/// Everything there is to say: stores in the order of the file, then routes, then the configuration.
pub async fn diagnose(config: &Config) -> Vec<Diagnostic> {
    let stores = join_all(config.stores.iter().map(|store| stores::about(store, config)));
    let routes = join_all(config.routes.iter().map(|route| preflight::about_route(route, config)));
    let (stores, routes) = tokio::join!(stores, routes);
    let found = stores.into_iter().chain(routes).flatten().chain(config::about(config)).chain(files::about(config));
    found.map(with_next_step).collect()
}

/// What says nothing of its own about the next step has that of its code.
pub(crate) fn with_next_step(found: Diagnostic) -> Diagnostic {
    match (&found, found.code.as_deref().and_then(crate::codes::find)) {
        (Diagnostic { hint: None, fix: None, .. }, Some(code)) => found.hint(plain(code.next)),
        _ => found,
    }
}
