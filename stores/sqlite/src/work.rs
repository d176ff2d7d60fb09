//! What is done on a connection, as one type: one task is compiled that does it all, and not one for each statement.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::SqliteConnection;

use crate::error::Fault;

/// Something that is done on a connection.
pub(crate) type ConnectionFuture<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// Unit of work on a connection, with its result type erased.
pub(crate) type ConnectionTask =
    Box<dyn for<'c> FnOnce(&'c mut SqliteConnection) -> ConnectionFuture<'c, AnyResult> + Send>;

/// Result of a unit of work, with its type erased.
pub(crate) struct AnyResult(Box<dyn Any + Send>);

impl AnyResult {
    /// Returns the result as its type.
    pub(crate) fn known<T: 'static>(self, operation: &'static str) -> Result<T, StoreError> {
        let other = |_| StoreError::new(StoreErrorKind::Other, operation, "the work found something else");
        self.0.downcast().map(|found| *found).map_err(other)
    }
}

/// Erases the result type of a unit of work.
pub(crate) fn any<T, F>(work: F) -> ConnectionTask
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> ConnectionFuture<'c, T> + Send + 'static,
{
    Box::new(|conn| {
        let work = work(conn);
        Box::pin(async { Ok(AnyResult(Box::new(work.await?))) })
    })
}
