//! The transactions of consumers.

use postroom_core::{StoreError, Transactions};

use crate::{MemoryStore, MemoryTx};

impl Transactions for MemoryStore {
    type Tx = MemoryTx;

    async fn begin(&self) -> Result<Self::Tx, StoreError> {
        Ok(MemoryTx::new(self))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError> {
        tx.commit();
        Ok(())
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<(), StoreError> {
        drop(tx);
        Ok(())
    }
}
