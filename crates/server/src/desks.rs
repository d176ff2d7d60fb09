//! The stores for those who look while relays work: opened when first asked for, through few connections of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use postroom_core::{Desk, Store, StoreError};
use tokio::sync::OnceCell;

use crate::config::{Config, StoreConfig};
use crate::stores;

type Cell = Arc<OnceCell<Arc<dyn Store>>>;

/// The desks of a configuration.
pub(crate) struct Desks {
    state: Mutex<State>,
}

struct State {
    config: Arc<Config>,
    opened: BTreeMap<String, Cell>,
}

impl Desks {
    pub(crate) fn new(config: &Config) -> Self {
        Self { state: Mutex::new(State { config: Arc::new(config.clone()), opened: BTreeMap::new() }) }
    }

    /// From now on of this configuration; a store that is the same as before stays open.
    pub(crate) fn begin_again(&self, config: &Config) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.config, Arc::new(config.clone()));
        let stays = |name: &str| before.store(Some(name)).ok() == config.store(Some(name)).ok();
        state.opened.retain(|name, _| stays(name));
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.lock().config)
    }

    /// The desk of a store.
    pub(crate) async fn desk(&self, store: &StoreConfig) -> Result<Arc<dyn Desk>, StoreError> {
        let (cell, limits) = {
            let mut state = self.lock();
            let limits = state.config.limits;
            (Arc::clone(state.opened.entry(store.name.clone()).or_default()), limits)
        };
        let opened = cell.get_or_try_init(|| stores::open_for_looking(store, limits)).await?;
        Ok(opened.desk())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Desks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desks").finish_non_exhaustive()
    }
}
