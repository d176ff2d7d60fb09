//! What is wrong with a store: whether it can be used, and what its database says.

use std::sync::Arc;

use postroom_core::view::Found;
use postroom_core::{Store, StoreError, StoreErrorKind};
use tokio::time::timeout;

use super::relays;
use crate::config::{Config, StoreConfig};
use crate::online::{ANSWER_WITHIN, answers, refusal, silence};
use crate::stores::{self, IfMissing};

pub(super) async fn about(store: &StoreConfig, config: &Config) -> Vec<Found> {
    let found = match timeout(ANSWER_WITHIN, Box::pin(used(store, config))).await {
        Ok(found) => found,
        Err(_) => vec![silence(store)],
    };
    found.into_iter().map(|found| found.of_store(&store.name)).collect()
}

async fn used(store: &StoreConfig, config: &Config) -> Vec<Found> {
    // The doctor makes no tables, also where a relay would.
    let looked_at = StoreConfig { migrate: false, ..store.clone() };
    let open = match stores::open(&looked_at, config.limits).await {
        Ok(open) => open,
        Err(error) if error.is_transient() => return vec![refusal(error)],
        Err(error) => return unusable(store, error).await,
    };
    let (database, table, fleet) = tokio::join!(
        stores::examine_database(&looked_at),
        stores::examine_table(&looked_at, config.limits),
        fleet(&open, store, config),
    );
    let mut found = vec![answers(store)];
    for part in [database, table, fleet] {
        found.extend(part.unwrap_or_else(|error| vec![refusal(error)]));
    }
    found
}

/// Why it cannot be used, and what its database says all the same.
async fn unusable(store: &StoreConfig, error: StoreError) -> Vec<Found> {
    let mut found = if made_by_a_relay(store, &error).await {
        vec![Found::fine("its tables beside the adopted one are made by the first relay")]
    } else {
        vec![refusal(error)]
    };
    // What refused the store most likely refuses this too, in the same words.
    found.extend(stores::examine_database(store).await.unwrap_or_default());
    found
}

async fn made_by_a_relay(store: &StoreConfig, error: &StoreError) -> bool {
    if error.kind != StoreErrorKind::Schema || !store.adopts() || !store.migrate {
        return false;
    }
    let Ok(schema) = stores::open_schema(store, IfMissing::Fail).await else { return false };
    schema.status().await.is_ok_and(|status| status.version == 0)
}

async fn fleet(open: &Arc<dyn Store>, store: &StoreConfig, config: &Config) -> Result<Vec<Found>, StoreError> {
    let desk = open.desk();
    let (relays, routes) = tokio::try_join!(desk.relays(), desk.routes())?;
    let configured: Vec<&str> = config
        .routes
        .iter()
        .filter(|route| route.stores.contains(&store.name))
        .map(|route| route.definition.name.as_str())
        .collect();
    #[cfg(feature = "adopted")]
    let owned = store.layout.as_ref().is_none_or(postroom_adopted::Layout::has_owner);
    #[cfg(not(feature = "adopted"))]
    let owned = true;
    Ok(relays::about(&relays::Fleet { store: &store.name, relays: &relays, routes: &routes, configured, owned }))
}
