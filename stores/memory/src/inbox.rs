//! The inbox: an acceptance is a row that can be there once per consumer and event, in the transaction of its effect.

use postroom_core::{Acceptance, CONSUMER_BYTES_MAX, ID_BYTES_MAX, Inbox, StoreError, StoreErrorKind};

use crate::state::Claim;
use crate::{MemoryStore, MemoryTx};

/// Who accepted what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Accepted {
    pub(crate) consumer: String,
    pub(crate) id: String,
}

impl Inbox<MemoryTx> for MemoryStore {
    async fn accept(&self, tx: &mut MemoryTx, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        check("consumer", consumer, CONSUMER_BYTES_MAX)?;
        check("event id", id, ID_BYTES_MAX)?;
        let accepted = Accepted { consumer: consumer.to_owned(), id: id.to_owned() };
        let is_new = tx.claim(Claim::Accepted(accepted)).await;
        Ok(if is_new { Acceptance::New } else { Acceptance::Duplicate })
    }
}

fn check(field: &str, value: &str, limit: usize) -> Result<(), StoreError> {
    if (1..=limit).contains(&value.len()) {
        return Ok(());
    }
    let message = format!("{field} is {} bytes, it must have 1 to {limit}", value.len());
    Err(StoreError::new(StoreErrorKind::Invalid, "accept", message).hint("accept by the event's own id"))
}
