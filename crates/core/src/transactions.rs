//! The transactions a consumer works in: begun and ended by the loop, used by its inbox and its handler.

use std::future::Future;

use crate::error::StoreError;

/// Begins and ends transactions of the database that a consumer's effects are in.
///
/// A transaction that is dropped is rolled back. The future of a `begin` may be dropped, too: nothing is left open.
pub trait Transactions: Send + Sync {
    /// A transaction, as the [`Inbox`](crate::Inbox) beside it takes it.
    type Tx: Send;

    /// Begins one.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send;

    /// Makes what was done in it last. After an error it may have happened, or not.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Undoes what was done in it. An error says that the database is not there; it is undone all the same.
    fn rollback(&self, tx: Self::Tx) -> impl Future<Output = Result<(), StoreError>> + Send;
}
