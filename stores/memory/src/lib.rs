//! The store in memory: the reference member of the store suite, and the store of tests and demos.
//!
//! It keeps the same log, lanes, leases and deliveries as every other store, without a database: everything is gone with
//! the last handle. A transaction sees what it appended; everybody else sees it after [`MemoryTx::commit`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use postroom_core::{Event, Outbox};
//! use postroom_memory::MemoryStore;
//!
//! let store = MemoryStore::new();
//! let mut tx = store.begin();
//! let appended = store.append(&mut tx, &Event::new("order.placed").key("order-7")).await?;
//! tx.commit();
//! appended.wake();
//! # Ok::<(), postroom_core::StoreError>(()) }).unwrap();
//! ```

mod admin;
mod batch;
mod clock;
mod delivery;
mod inbox;
mod lane;
mod log;
mod outbox;
mod relay;
mod route;
mod source;
mod state;
mod transactions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_admin::{Admin, ManagedStore};
use postroom_core::{
    Clock, Contract, Event, Limits, Maintenance, Notifier, RelayIdentity, Retain, RouteSpec, Schema, Source, Store,
    StoreError,
};
use tokio::sync::Notify;

use clock::SystemClock;
pub use outbox::MemoryTx;
use source::MemorySource;
use state::State;

/// Options of a [`MemoryStore`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// Name of the store. Defaults to `memory`.
    pub name: String,
    /// Number of lanes over which keys are distributed; relays share them.
    ///
    /// With one, a single relay serves a route at a time; with many more than relays, each take looks at more lanes.
    ///
    /// Defaults to 16; 0 counts as 1.
    pub lanes: u32,
    /// Clock of due times, leases and retention. Defaults to the system's.
    pub clock: Arc<dyn Clock>,
    /// Limits that are enforced at append.
    pub limits: Limits,
    /// Contract of events beyond the limits, checked before any write. Defaults to none.
    pub contract: Option<Arc<dyn Contract>>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            name: "memory".to_owned(),
            lanes: 16,
            clock: Arc::new(SystemClock::default()),
            limits: Limits::default(),
            contract: None,
        }
    }
}

/// Store in memory. Cheap to clone; all clones are the same store.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    clock: Arc<dyn Clock>,
    limits: Limits,
    contract: Option<Arc<dyn Contract>>,
    wake: Notifier,
    /// A transaction that others may wait for has ended.
    ended: Notify,
    state: Mutex<State>,
}

impl MemoryStore {
    /// Creates an empty store with the default options.
    pub fn new() -> Self {
        Self::with(MemoryOptions::default())
    }

    /// Creates an empty store.
    pub fn with(options: MemoryOptions) -> Self {
        let state = State::new(&options.name, options.lanes.max(1));
        let inner = Inner {
            name: options.name,
            clock: options.clock,
            limits: options.limits,
            contract: options.contract,
            wake: Notifier::default(),
            ended: Notify::new(),
            state: Mutex::new(state),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Begins a transaction; dropping it rolls it back.
    pub fn begin(&self) -> MemoryTx {
        MemoryTx::new(self)
    }

    /// Returns every event in the log, in order.
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.lock().log.iter().map(|(_, row)| Arc::clone(&row.event)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        route.refuse_consumer(self.name())?;
        let (now, elapsed) = (self.now(), self.inner.clock.elapsed());
        self.lock().join(relay, route, now, elapsed)?;
        Ok(Arc::new(MemorySource::new(self.clone(), relay.clone(), route.clone())))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        Arc::new(self.clone())
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        None
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        None
    }
}

impl ManagedStore for MemoryStore {
    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(self.clone())
    }
}
