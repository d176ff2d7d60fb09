//! The transactions of consumers: through the store's own connections, or through a pool that the application has.

use postroom_core::{StoreError, Transactions};
use sqlx::{SqlitePool, Transaction};

use crate::database::joined;
use crate::error::Fault;
use crate::store::Sqlite;

impl Transactions for Sqlite {
    type Tx = Transaction<'static, sqlx::Sqlite>;

    async fn begin(&self) -> Result<Self::Tx, StoreError> {
        self.inner.db.begin().await
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.commit().await.map_err(|error| Fault::from(error).at("commit", &self.inner.db.path))
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.rollback().await.map_err(|error| Fault::from(error).at("rollback", &self.inner.db.path))
    }
}

/// Transactions of a pool of the application's own, for inboxes that are tables of its own. They are writers from the
/// start (`begin immediate`).
#[derive(Debug, Clone)]
pub struct PoolTransactions(SqlitePool);

impl PoolTransactions {
    /// Of this pool.
    pub fn of(pool: &SqlitePool) -> Self {
        Self(pool.clone())
    }
}

/// What errors call it.
const PLACE: &str = "the application's database";

impl Transactions for PoolTransactions {
    type Tx = Transaction<'static, sqlx::Sqlite>;

    async fn begin(&self) -> Result<Self::Tx, StoreError> {
        let pool = self.0.clone();
        // In a task of its own nobody can drop it half-way.
        let begun = tokio::spawn(async move { pool.begin_with("begin immediate").await }).await;
        joined(begun, "begin")?.map_err(|error| Fault::from(error).at("begin", PLACE))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.commit().await.map_err(|error| Fault::from(error).at("commit", PLACE))
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.rollback().await.map_err(|error| Fault::from(error).at("rollback", PLACE))
    }
}
