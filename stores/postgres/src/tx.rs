//! Transactions that events are appended and accepted in: the store's own, and those of a pool of the application's.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use postroom_core::StoreError;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::error::{Fault, state_of};
use crate::store::Inner;

/// Transaction of a [`PostgresStore`](crate::PostgresStore). Use `&mut *tx` for statements of your own; dropping it rolls it back.
///
/// Its commit wakes the relays of this process if something was appended in it.
pub struct PostgresTx {
    tx: Transaction<'static, Postgres>,
    store: Arc<Inner>,
    appended: bool,
}

impl PostgresTx {
    pub(crate) fn new(tx: Transaction<'static, Postgres>, store: Arc<Inner>) -> Self {
        Self { tx, store, appended: false }
    }

    /// Commits the business writes and the events together, and wakes the relays of this process if there are events.
    pub async fn commit(self) -> Result<(), StoreError> {
        let committed = self.tx.commit().await.map_err(at_commit);
        committed.map_err(|fault| fault.at("commit", &self.store.db.place))?;
        if self.appended {
            self.store.wake.wake();
        }
        Ok(())
    }

    /// Rolls back the business writes and the appends.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(|error| Fault::from(error).at("rollback", &self.store.db.place))
    }
}

impl Deref for PostgresTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for PostgresTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

/// For functions that take sqlx's type.
impl AsMut<Transaction<'static, Postgres>> for PostgresTx {
    fn as_mut(&mut self) -> &mut Transaction<'static, Postgres> {
        &mut self.tx
    }
}

impl fmt::Debug for PostgresTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTx").field("store", &self.store.name).finish_non_exhaustive()
    }
}

/// The fault of a commit: without an answer of the server it may have happened all the same.
pub(crate) fn at_commit(error: sqlx::Error) -> Fault {
    if state_of(&error).is_none() { Fault::Commit(error) } else { error.into() }
}

/// Transaction that a [`PostgresStore`](crate::PostgresStore) appends and accepts in: [`PostgresTx`], or sqlx's own. A bare
/// connection or a pool is none: an event that commits apart from the business write is what an outbox is there to prevent.
pub trait PostgresTransaction: Send + sealed::Sealed {
    #[doc(hidden)]
    fn connection(&mut self) -> &mut PgConnection;

    /// Remembers that something was appended, for the commit to wake relays.
    #[doc(hidden)]
    fn set_appended(&mut self) {}
}

impl PostgresTransaction for Transaction<'_, Postgres> {
    fn connection(&mut self) -> &mut PgConnection {
        self
    }
}

impl PostgresTransaction for PostgresTx {
    fn connection(&mut self) -> &mut PgConnection {
        self
    }

    fn set_appended(&mut self) {
        self.appended = true;
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for sqlx::Transaction<'_, sqlx::Postgres> {}
    impl Sealed for super::PostgresTx {}
}
