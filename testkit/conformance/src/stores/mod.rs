//! One suite that every store passes.
//!
//! A store's test file says how to make one, and runs everything:
//!
//! ```text
//! postroom_conformance::store_suite!(MyHarness);
//! ```
//!
//! Every case is a test of its own, named by what it says of stores. When a case ends, the verification must agree. A bug found
//! in one store becomes a case here.
#![allow(missing_docs, reason = "the names of the cases are sentences")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "a suite fails by panicking")]

pub mod accepting;
pub mod appending;
mod bench;
pub mod blocking;
pub mod counting;
pub mod erasing;
pub mod histories;
pub mod keys;
pub mod leasing;
pub mod replaying;
pub mod retaining;
pub mod routes;
pub mod settling;
pub mod stepping;
mod suite;
pub mod taking;
pub mod waiting;

use postroom_admin::ManagedStore;
use postroom_core::{Inbox, Outbox};
use postroom_testing::ManualClock;

pub use bench::{Bench, Worker, ids};

/// How the suite makes and uses one kind of store.
#[allow(async_fn_in_trait, reason = "a test awaits it on its own task")]
pub trait StoreHarness: Sized + 'static {
    /// The caller's transaction.
    type Tx: Send;
    /// The store.
    type Store: ManagedStore + Outbox<Self::Tx> + Inbox<Self::Tx> + 'static;

    /// Makes an empty store of its own, on a manual clock.
    async fn fresh() -> Self;
    /// The store.
    fn store(&self) -> &Self::Store;
    /// Another handle on the same data, as another process would open it.
    async fn reopen(&self) -> Self::Store;
    /// The clock that decides about leases, due times and retention.
    fn clock(&self) -> &ManualClock;
    /// How many lanes it has.
    fn lanes(&self) -> usize;

    /// Whether events go a whole segment at a time: then one that is needed keeps all of its segment.
    fn prunes_by_segment(&self) -> bool {
        false
    }

    /// Begins a transaction.
    async fn begin(&self) -> Self::Tx;
    /// Commits it.
    async fn commit(&self, tx: Self::Tx);
    /// Rolls it back.
    async fn rollback(&self, tx: Self::Tx);

    /// Loses one event from the log behind the store's back, for the verification to find. Says whether it can do that.
    async fn lose(&self, id: &str) -> bool;
}

/// Runs one case on a store of its own, and verifies it afterwards.
pub async fn run<H: StoreHarness>(case: impl AsyncFnOnce(&Bench<H>)) {
    let bench = Bench::<H>::open().await;
    case(&bench).await;
    bench.agrees().await;
}
