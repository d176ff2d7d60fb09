//! Stores for the API and the commands while relays work: opened when first asked for, through few admin connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use postroom_admin::{Admin, ManagedStore};
use postroom_core::StoreError;
use tokio::sync::OnceCell;

use crate::config::{Config, StoreConfig};
use crate::stores;

type Cell = Arc<OnceCell<Arc<dyn ManagedStore>>>;

/// The admin_stores of a configuration.
pub(crate) struct AdminStores {
    state: Mutex<State>,
}

struct State {
    config: Arc<Config>,
    opened: BTreeMap<String, Cell>,
}

impl AdminStores {
    pub(crate) fn new(config: &Config) -> Self {
        Self { state: Mutex::new(State { config: Arc::new(config.clone()), opened: BTreeMap::new() }) }
    }

    /// From now on of this configuration; a store that is the same as before stays open.
    pub(crate) fn reload(&self, config: &Config) {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.config, Arc::new(config.clone()));
        let stays = |name: &str| before.store(Some(name)).ok() == config.store(Some(name)).ok();
        state.opened.retain(|name, _| stays(name));
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.lock().config)
    }

    /// The admin of a store.
    pub(crate) async fn admin(&self, store: &StoreConfig) -> Result<Arc<dyn Admin>, StoreError> {
        let (cell, limits) = {
            let mut state = self.lock();
            let limits = state.config.limits;
            (Arc::clone(state.opened.entry(store.name.clone()).or_default()), limits)
        };
        let opened = cell.get_or_try_init(|| stores::open_for_admin(store, limits)).await?;
        Ok(opened.admin())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for AdminStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminStores").finish_non_exhaustive()
    }
}
