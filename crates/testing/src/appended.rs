//! Asserts on what was appended.
#![allow(clippy::panic, reason = "an assertion fails by panicking")]

use std::sync::Arc;

use postroom_core::Event;
use postroom_memory::{MemoryStore, MemoryTx};

/// Where events were appended: a transaction that is still open, or a store.
pub trait Appends {
    /// The events, in order.
    fn appended_events(&self) -> Vec<Arc<Event>>;
}

impl Appends for MemoryTx {
    fn appended_events(&self) -> Vec<Arc<Event>> {
        self.appended().iter().cloned().map(Arc::new).collect()
    }
}

impl Appends for MemoryStore {
    fn appended_events(&self) -> Vec<Arc<Event>> {
        self.events()
    }
}

/// Asserts that an event of this type was appended for which `fits` holds, and returns the first.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use postroom_core::{Event, Outbox, StoreError};
/// use postroom_memory::{MemoryStore, MemoryTx};
/// use postroom_testing::assert_appended;
///
/// // The code under test takes the caller's transaction, so it runs on the store in memory as it is.
/// async fn place_order(outbox: &MemoryStore, tx: &mut MemoryTx, order: u32) -> Result<(), StoreError> {
///     let event = Event::new("order.placed").aggregate("order", order.to_string());
///     outbox.append(tx, &event.json(&serde_json::json!({ "order": order }))?).await?;
///     Ok(())
/// }
///
/// let store = MemoryStore::new();
/// let mut tx = store.begin();
/// place_order(&store, &mut tx, 7).await?;
/// assert_appended(&tx, "order.placed", |event| event.aggregate_id.as_deref() == Some("7"));
/// tx.commit();
/// assert_appended(&store, "order.placed", |event| event.ordering_key() == Some("7"));
/// # Ok::<(), StoreError>(()) }).unwrap();
/// ```
///
/// # Panics
/// When there is none; the message lists what was appended, without payloads.
#[track_caller]
pub fn assert_appended(to: &impl Appends, event_type: &str, fits: impl Fn(&Event) -> bool) -> Arc<Event> {
    let events = to.appended_events();
    let found = events.iter().find(|event| event.event_type == event_type && fits(event));
    found.map_or_else(|| panic!("no such {event_type:?} was appended; there is {}", list(&events)), Arc::clone)
}

/// Asserts that no event of this type was appended.
///
/// # Panics
/// When there is one.
#[track_caller]
pub fn assert_not_appended(to: &impl Appends, event_type: &str) {
    let events = to.appended_events();
    let found = events.iter().any(|event| event.event_type == event_type);
    assert!(!found, "{event_type:?} was appended; there is {}", list(&events));
}

/// What there is, by type and key. Never the payload: test logs are read by many.
fn list(events: &[Arc<Event>]) -> String {
    if events.is_empty() {
        return "nothing".to_owned();
    }
    let line = |event: &Arc<Event>| match event.ordering_key() {
        Some(key) => format!("{} (key {key})", event.event_type),
        None => event.event_type.clone(),
    };
    events.iter().map(line).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use postroom_core::Outbox;

    use super::*;

    async fn appended() -> MemoryTx {
        let store = MemoryStore::new();
        let mut tx = store.begin();
        let _ = store.append(&mut tx, &Event::new("order.placed").key("7")).await.unwrap();
        tx
    }

    #[tokio::test]
    #[should_panic(expected = "no such \"order.paid\" was appended; there is order.placed (key 7)")]
    async fn a_missing_event_is_told_with_what_there_is() {
        assert_appended(&appended().await, "order.paid", |_| true);
    }

    #[tokio::test]
    #[should_panic(expected = "no such \"order.placed\"")]
    async fn an_event_that_does_not_fit_does_not_count() {
        assert_appended(&appended().await, "order.placed", |event| event.key.as_deref() == Some("8"));
    }

    #[tokio::test]
    async fn what_is_rolled_back_was_never_appended_to_the_store() {
        let store = MemoryStore::new();
        let mut tx = store.begin();
        let _ = store.append(&mut tx, &Event::new("order.placed")).await.unwrap();
        assert_not_appended(&store, "order.placed");
        tx.rollback();
        assert_not_appended(&store, "order.placed");
    }
}
