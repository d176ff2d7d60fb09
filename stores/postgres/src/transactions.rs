//! The transactions of consumers: through the store's own connections, or through a pool that the application has.

use postroom_core::{StoreError, Transactions};
use sqlx::{PgConnection, PgPool, Transaction};

use crate::database::joined;
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::{PostgresTx, at_commit};

impl Transactions for PostgresStore {
    type Tx = PostgresTx;

    async fn begin(&self) -> Result<PostgresTx, StoreError> {
        Self::begin(self).await
    }

    async fn commit(&self, mut tx: PostgresTx) -> Result<(), StoreError> {
        can_commit(&mut tx).await.map_err(|error| Fault::from(error).at("commit", &self.inner.db.place))?;
        tx.commit().await
    }

    async fn rollback(&self, tx: PostgresTx) -> Result<(), StoreError> {
        tx.rollback().await
    }
}

/// Transactions of the application's own pool, for inboxes in its own tables.
#[derive(Debug, Clone)]
pub struct PoolTransactions(PgPool);

impl PoolTransactions {
    /// Returns the transactions of this pool.
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

async fn commit(mut tx: Transaction<'static, sqlx::Postgres>) -> Result<(), Fault> {
    can_commit(&mut tx).await?;
    tx.commit().await.map_err(at_commit)
}

/// Fails if the transaction cannot be committed. In one with a failed statement the server answers a commit by rolling
/// back, and sqlx does not tell: whoever overlooked that failure would believe that all is done.
async fn can_commit(tx: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("select 1").execute(tx).await.map(drop)
}
