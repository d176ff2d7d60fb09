//! The consumer's side: remembers which events were accepted, in the same transaction as their effect.

use std::future::Future;

use crate::error::StoreError;

/// Longest consumer name, in bytes.
pub const CONSUMER_BYTES_MAX: usize = 255;

/// Result of accepting an event for a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "do the work only when it is New"]
pub enum Acceptance {
    /// The event is new: do the work, in this transaction.
    New,
    /// The event was accepted before: acknowledge and go on.
    Duplicate,
}

impl Acceptance {
    /// Reports whether the work is to be done.
    pub fn is_new(self) -> bool {
        self == Self::New
    }
}

/// Inbox, which accepts each event once per consumer.
///
/// Call it first, in the transaction that does the work: when that commits, both are there; when it rolls back,
/// neither is. Two transactions that accept the same event at once: one gets `New`, the other waits and gets
/// `Duplicate`, or `New` if the first rolled back.
///
/// `Tx` is the caller's transaction: of the store itself, or of a pool that the application has.
pub trait Inbox<Tx: Send>: Send + Sync {
    /// Accepts the event for the consumer.
    fn accept(
        &self,
        tx: &mut Tx,
        consumer: &str,
        id: &str,
    ) -> impl Future<Output = Result<Acceptance, StoreError>> + Send;
}
