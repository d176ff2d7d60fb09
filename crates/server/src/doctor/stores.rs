//! What is wrong with a store: whether it can be used, and what its database says.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_admin::{ManagedStore, Undelivered};
use postroom_core::{Diagnostic, Limits, RouteState, StoreError, StoreErrorKind};
use tokio::time::timeout;

use super::relays;
use crate::config::{Config, StoreConfig};
use crate::preflight::{ANSWER_WITHIN, answers, refusal, silence};
use crate::stores::{self, IfMissing};

pub(super) async fn about(store: &StoreConfig, config: &Config) -> Vec<Diagnostic> {
    let found = match timeout(ANSWER_WITHIN, Box::pin(used(store, config))).await {
        Ok(found) => found,
        Err(_) => vec![silence(store)],
    };
    found.into_iter().map(|found| found.of_store(&store.name)).collect()
}

async fn used(store: &StoreConfig, config: &Config) -> Vec<Diagnostic> {
    // The doctor makes no tables, also where a relay would.
    let looked_at = StoreConfig { migrate: false, ..store.clone() };
    let open = match stores::open(&looked_at, config.limits).await {
        Ok(open) => open,
        Err(error) if error.is_transient() => return vec![refusal(error)],
        Err(error) => return unusable(store, error).await,
    };
    let mut of_store = config.routes.iter().filter(|route| route.stores.contains(&store.name));
    let consumer = of_store.find_map(|route| route.definition.consumer.as_deref());
    let (database, table, fleet) = tokio::join!(
        stores::diagnose_database(&looked_at),
        stores::diagnose_table(&looked_at, config.limits, consumer),
        fleet(&open, store, config),
    );
    let mut found = vec![answers(store)];
    for part in [database, table, fleet] {
        found.extend(part.unwrap_or_else(|error| vec![refusal(error)]));
    }
    found
}

/// Why it cannot be used, and what its database says all the same.
async fn unusable(store: &StoreConfig, error: StoreError) -> Vec<Diagnostic> {
    let mut found = if made_by_a_relay(store, &error).await {
        vec![Diagnostic::fine("the first relay creates the tables beside the adopted one")]
    } else {
        vec![refusal(error)]
    };
    // What refused the store most likely refuses this too, in the same words.
    found.extend(stores::diagnose_database(store).await.unwrap_or_default());
    found
}

async fn made_by_a_relay(store: &StoreConfig, error: &StoreError) -> bool {
    if error.kind != StoreErrorKind::Schema || !store.adopts() || !store.migrate {
        return false;
    }
    let Ok(schema) = stores::open_schema(store, Limits::default(), IfMissing::Fail).await else { return false };
    schema.status().await.is_ok_and(|status| status.version == 0)
}

async fn fleet(
    open: &Arc<dyn ManagedStore>,
    store: &StoreConfig,
    config: &Config,
) -> Result<Vec<Diagnostic>, StoreError> {
    let admin = open.admin();
    let (relays, routes) = tokio::try_join!(admin.relays(), admin.routes())?;
    let configured = config.routes_of(&store.name).into_iter().map(|route| &route.definition).collect();
    #[cfg(feature = "adopted")]
    let owned = store.mapping.as_ref().is_none_or(postroom_adopted::Mapping::has_owner);
    #[cfg(not(feature = "adopted"))]
    let owned = true;
    let mut left = BTreeMap::new();
    for route in routes.iter().map(|route| &route.status).filter(|status| status.state == RouteState::Orphan) {
        left.insert(route.route.as_str(), Undelivered::of(&*admin, route).await?);
    }
    let (relays, routes) = (&relays, &routes);
    Ok(relays::about(&relays::Fleet { store: &store.name, relays, routes, left, configured, owned }))
}
