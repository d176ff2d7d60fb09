//! The producer's side: appends in the caller's own transaction, and nowhere else.

use std::future::Future;

use crate::error::StoreError;
use crate::event::ToEvent;
use crate::wake::Appended;

/// Appends events. There is no form without a transaction: an event that commits apart from the business write is the
/// bug this product exists to remove.
///
/// For order per key, lock or update the aggregate first, then append.
pub trait Outbox: Send + Sync {
    /// The caller's transaction.
    type Tx<'t>: Send;

    /// Appends one event.
    fn append<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        event: &E,
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Appends several in order; all or none.
    fn append_many<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        events: &[E],
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Appends unless an earlier committed call used the same word: makes a repeated request harmless.
    fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        once: &str,
        event: &E,
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send;
}
