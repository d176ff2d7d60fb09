//! Among the relays of a store the one that joined first does what only one should do.

use postroom_core::{Desk, StoreError};

/// Whether we joined the relays of the store first; nothing before we have joined.
pub(crate) async fn is_first(desk: &dyn Desk, boot: &str) -> Result<Option<bool>, StoreError> {
    let relays = desk.relays().await?;
    let alive = relays.iter().filter(|relay| relay.alive);
    let first = alive.min_by_key(|relay| (relay.started_at, relay.boot.as_str())).map(|relay| relay.boot == boot);
    Ok(first.filter(|_| relays.iter().any(|relay| relay.boot == boot)))
}
