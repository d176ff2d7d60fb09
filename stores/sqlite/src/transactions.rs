//! The transactions of consumers: through the store's own connections, or through a pool that the application has.

use postroom_core::{StoreError, Transactions};
use sqlx::{SqlitePool, Transaction};

use crate::database::joined;
use crate::error::Fault;
use crate::store::SqliteStore;
use crate::tx::SqliteTx;

impl Transactions for SqliteStore {
    type Tx = SqliteTx;

    async fn begin(&self) -> Result<SqliteTx, StoreError> {
        Self::begin(self).await
    }

    async fn commit(&self, tx: SqliteTx) -> Result<(), StoreError> {
        tx.commit().await
    }

    async fn rollback(&self, tx: SqliteTx) -> Result<(), StoreError> {
        tx.rollback().await
    }
}

/// Transactions of the application's own pool, for inboxes in its own tables. They are writers from the
/// start (`begin immediate`).
#[derive(Debug, Clone)]
pub struct PoolTransactions(SqlitePool);

impl PoolTransactions {
    /// Returns the transactions of this pool.
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
