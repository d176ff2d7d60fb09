//! Transactional outbox, relay and inbox: the crate applications depend on.
