//! Transactions that events are appended and accepted in: the store's own, and those of a pool of the application's.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use postroom_core::StoreError;
use sqlx::{Sqlite, SqliteConnection, Transaction};

use crate::error::Fault;
use crate::store::Inner;

/// Transaction of a [`SqliteStore`](crate::SqliteStore). Use `&mut *tx` for statements of your own; dropping it rolls it back.
///
/// Its commit wakes the relays of this process if something was appended in it.
pub struct SqliteTx {
    tx: Transaction<'static, Sqlite>,
    store: Arc<Inner>,
    appended: bool,
}

impl SqliteTx {
    pub(crate) fn new(tx: Transaction<'static, Sqlite>, store: Arc<Inner>) -> Self {
        Self { tx, store, appended: false }
    }

    /// Commits the business writes and the events together, and wakes the relays of this process if there are events.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await.map_err(|error| Fault::from(error).at("commit", &self.store.db.path))?;
        if self.appended {
            self.store.wake.wake();
        }
        Ok(())
    }

    /// Rolls back the business writes and the appends.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.rollback().await.map_err(|error| Fault::from(error).at("rollback", &self.store.db.path))
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

/// For functions that take sqlx's type.
impl AsMut<Transaction<'static, Sqlite>> for SqliteTx {
    fn as_mut(&mut self) -> &mut Transaction<'static, Sqlite> {
        &mut self.tx
    }
}

impl fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTx").field("store", &self.store.name).finish_non_exhaustive()
    }
}

/// Transaction that a [`SqliteStore`](crate::SqliteStore) appends and accepts in: [`SqliteTx`], or sqlx's own. A bare
/// connection or a pool is none: an event that commits apart from the business write is what an outbox is there to prevent.
pub trait SqliteTransaction: Send + sealed::Sealed {
    #[doc(hidden)]
    fn connection(&mut self) -> &mut SqliteConnection;

    /// Remembers that something was appended, for the commit to wake relays.
    #[doc(hidden)]
    fn set_appended(&mut self) {}
}

impl SqliteTransaction for Transaction<'_, Sqlite> {
    fn connection(&mut self) -> &mut SqliteConnection {
        self
    }
}

impl SqliteTransaction for SqliteTx {
    fn connection(&mut self) -> &mut SqliteConnection {
        self
    }

    fn set_appended(&mut self) {
        self.appended = true;
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for sqlx::Transaction<'_, sqlx::Sqlite> {}
    impl Sealed for super::SqliteTx {}
}
