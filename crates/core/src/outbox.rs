//! The producer's side: appends in the caller's own transaction, and nowhere else.

use std::future::Future;

use crate::error::StoreError;
use crate::event::ToEvent;
use crate::notify::Appended;

/// Outbox, which appends events. Every append needs a transaction: an event that commits apart from the business write is the
/// bug that an outbox removes.
///
/// `Tx` is the caller's transaction: of the store itself, or of a pool that the application has.
///
/// For order per key, lock or update the aggregate first, then append.
pub trait Outbox<Tx: Send>: Send + Sync {
    /// Appends one event.
    fn append<E: ToEvent + Sync>(
        &self,
        tx: &mut Tx,
        event: &E,
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Appends several events in order; all or none.
    fn append_many<E: ToEvent + Sync>(
        &self,
        tx: &mut Tx,
        events: &[E],
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Appends an event unless an earlier committed call used the same idempotency key, so that repeated requests are harmless.
    fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut Tx,
        idempotency_key: &str,
        event: &E,
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send;
}
