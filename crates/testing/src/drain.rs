//! Runs a relay until there is nothing left to do.

use postroom_core::{RouteDefinition, Store, Transport};
use postroom_relay::{Relay, RelayError, RelayOptions, RouteRun};

/// Delivers everything the route wants and that is due or retrying, then returns. Delayed, blocked and dead ones stay.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use postroom_core::{Event, Outbox, RouteDefinition, Start};
/// use postroom_memory::Memory;
/// use postroom_testing::{ScriptedTransport, drain};
///
/// let store = Memory::new();
/// let mut tx = store.begin();
/// store.append(&mut tx, &Event::new("order.placed")).await.unwrap().wake();
/// tx.commit();
///
/// let transport = ScriptedTransport::new();
/// let route = RouteDefinition::new("mailer").starting(Start::Beginning);
/// drain(store, route, transport.clone()).await.unwrap();
/// assert_eq!(transport.delivered_ids().len(), 1);
/// # });
/// ```
pub async fn drain(
    store: impl Store + 'static,
    route: RouteDefinition,
    transport: impl Transport + 'static,
) -> Result<(), RelayError> {
    let options = RelayOptions { drain: true, retention: None, ..RelayOptions::default() };
    Relay::new(options).serve(RouteRun::new(store, route, transport)).run(std::future::pending()).await
}
