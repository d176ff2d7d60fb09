//! The transactions a consumer works in: begun and ended by the loop, used by its inbox and its handler.

use std::future::Future;

use crate::error::StoreError;

/// Begins and ends transactions of the database that a consumer's effects are in.
///
/// A transaction that is dropped is rolled back. The future of a `begin` may be dropped, too: nothing is left open.
pub trait Transactions: Send + Sync {
    /// Transaction, as the [`Inbox`](crate::Inbox) beside it takes it.
    type Tx: Send;

    /// Begins a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send;

    /// Commits a transaction. After an error the commit may or may not have happened.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Rolls a transaction back. An error means that the database is not reachable; the transaction is rolled back all the same.
    fn rollback(&self, tx: Self::Tx) -> impl Future<Output = Result<(), StoreError>> + Send;
}
