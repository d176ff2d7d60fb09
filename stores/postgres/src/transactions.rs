//! The transactions of consumers: through the store's own connections, or through a pool that the application has.

use postroom_core::{StoreError, Transactions};
use sqlx::{PgPool, Transaction};

use crate::database::joined;
use crate::error::{Fault, state_of};
use crate::store::Postgres;

impl Transactions for Postgres {
    type Tx = Transaction<'static, sqlx::Postgres>;

    async fn begin(&self) -> Result<Self::Tx, StoreError> {
        self.inner.db.begin().await
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError> {
        commit(tx).await.map_err(|fault| fault.at("commit", &self.inner.db.place))
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.rollback().await.map_err(|error| Fault::from(error).at("rollback", &self.inner.db.place))
    }
}

/// Transactions of a pool of the application's own, for inboxes that are tables of its own.
#[derive(Debug, Clone)]
pub struct PoolTransactions(PgPool);

impl PoolTransactions {
    /// Of this pool.
    pub fn of(pool: &PgPool) -> Self {
        Self(pool.clone())
    }
}

/// What errors call it.
const PLACE: &str = "the application's database";

impl Transactions for PoolTransactions {
    type Tx = Transaction<'static, sqlx::Postgres>;

    #[allow(clippy::disallowed_methods, reason = "in a task of its own nobody can drop it half-way")]
    async fn begin(&self) -> Result<Self::Tx, StoreError> {
        let pool = self.0.clone();
        let begun = tokio::spawn(async move { pool.begin().await }).await;
        joined(begun, "begin")?.map_err(|error| Fault::from(error).at("begin", PLACE))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError> {
        commit(tx).await.map_err(|fault| fault.at("commit", PLACE))
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.rollback().await.map_err(|error| Fault::from(error).at("rollback", PLACE))
    }
}

/// Commits what can be committed. In a transaction with a failed statement the server answers a commit by rolling back,
/// and sqlx does not tell: whoever overlooked that failure would believe that all is done. So it is asked before.
async fn commit(mut tx: Transaction<'static, sqlx::Postgres>) -> Result<(), Fault> {
    sqlx::raw_sql("select 1").execute(&mut *tx).await?;
    tx.commit().await.map_err(|error| if state_of(&error).is_none() { Fault::Commit(error) } else { error.into() })
}
