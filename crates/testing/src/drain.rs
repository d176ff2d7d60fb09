//! Runs a relay until there is nothing left to do.

use postroom_core::Store;
use postroom_relay::{Relay, RelayError, RelayOptions, Route};

/// Delivers everything the route wants and that is due or retrying, then returns. Delayed, blocked and dead ones stay.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use postroom_core::{Event, Outbox};
/// use postroom_memory::MemoryStore;
/// use postroom_relay::Route;
/// use postroom_testing::{ScriptedTransport, drain};
///
/// let store = MemoryStore::new();
/// let mut tx = store.begin();
/// store.append(&mut tx, &Event::new("order.placed")).await.unwrap().wake();
/// tx.commit();
///
/// let transport = ScriptedTransport::new();
/// drain(store, Route::named("mailer").from_beginning().to(transport.clone())).await.unwrap();
/// assert_eq!(transport.delivered_ids().len(), 1);
/// # });
/// ```
pub async fn drain(store: impl Store + 'static, route: Route) -> Result<(), RelayError> {
    let options = RelayOptions::default().drain(true).retention(None);
    Relay::new(store).options(options).route(route).run(std::future::pending()).await
}
