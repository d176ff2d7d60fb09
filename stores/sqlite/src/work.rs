//! Work on a connection, and any such work as one type: one task is compiled that does it all, and not one per question.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::SqliteConnection;

use crate::error::Fault;

/// Work on a connection.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// Any work on a connection.
pub(crate) type AnyWork = Box<dyn for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, Found> + Send>;

/// What any work found.
pub(crate) struct Found(Box<dyn Any + Send>);

impl Found {
    /// The same as what the work was said to find.
    pub(crate) fn known<T: 'static>(self, operation: &'static str) -> Result<T, StoreError> {
        let other = |_| StoreError::new(StoreErrorKind::Other, operation, "the work found something else");
        self.0.downcast().map(|found| *found).map_err(other)
    }
}

/// Hides what work finds.
pub(crate) fn any<T, F>(work: F) -> AnyWork
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T> + Send + 'static,
{
    Box::new(|conn| {
        let work = work(conn);
        Box::pin(async { Ok(Found(Box::new(work.await?))) })
    })
}
