//! The store suite on the store in memory, with many lanes and with one.

use std::sync::Arc;

use postroom_conformance::changed;
use postroom_conformance::stores::StoreHarness;
use postroom_memory::{MemoryOptions, MemoryStore, MemoryTx};
use postroom_testing::ManualClock;

struct Harness<const LANES: u32> {
    store: MemoryStore,
    clock: ManualClock,
}

impl<const LANES: u32> StoreHarness for Harness<LANES> {
    type Tx = MemoryTx;
    type Store = MemoryStore;

    async fn fresh() -> Self {
        let clock = ManualClock::new();
        let options = changed(MemoryOptions::default(), |o| {
            o.lanes = LANES;
            o.clock = Arc::new(clock.clone());
        });
        Self { store: MemoryStore::with(options), clock }
    }

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    async fn reopen(&self) -> MemoryStore {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lanes(&self) -> usize {
        LANES as usize
    }

    async fn begin(&self) -> MemoryTx {
        self.store.begin()
    }

    async fn commit(&self, tx: MemoryTx) {
        tx.commit();
    }

    async fn rollback(&self, tx: MemoryTx) {
        tx.rollback();
    }

    async fn lose(&self, _id: &str) -> bool {
        false
    }
}

mod sixteen_lanes {
    postroom_conformance::store_suite!(super::Harness<16>);
}

// As on a store with one writer: one active relay, others stand by.
mod one_lane {
    postroom_conformance::store_suite!(super::Harness<1>);
}
