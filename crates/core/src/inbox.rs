//! The consumer's side: remembers which events were accepted, in the same transaction as their effect.

use std::future::Future;

use crate::error::StoreError;

/// Longest consumer name, in bytes.
pub const CONSUMER_BYTES_MAX: usize = 255;

/// Whether an event is new to a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "do the work only when it is New"]
pub enum Acceptance {
    /// Do the work, in this transaction.
    New,
    /// It was done before: acknowledge and go on.
    Duplicate,
}

impl Acceptance {
    /// Whether the work is to be done.
    pub fn is_new(self) -> bool {
        self == Self::New
    }
}

/// Accepts events once per consumer.
///
/// Call it first, in the transaction that does the work: when that commits, both are there; when it rolls back,
/// neither is. Two transactions that accept the same event at once: one gets `New`, the other waits and gets
/// `Duplicate`, or `New` if the first rolled back.
pub trait Inbox: Send + Sync {
    /// The caller's transaction.
    type Tx<'t>: Send;

    /// Accepts the event for the consumer.
    fn accept(
        &self,
        tx: &mut Self::Tx<'_>,
        consumer: &str,
        id: &str,
    ) -> impl Future<Output = Result<Acceptance, StoreError>> + Send;
}
