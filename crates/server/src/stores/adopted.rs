//! Opens the stores whose outbox is a table that is there already.

use std::sync::Arc;

use postroom_adopted::{Adopted, AdoptedOptions, Ground, Layout, Migrate};
use postroom_core::view::Found;
use postroom_core::{Limits, Schema, Store, StoreError};
#[cfg(feature = "postgres")]
use postroom_postgres::PostgresGround;
use postroom_sqlite::SqliteGround;

use super::{For, sqlite, unknown};
use crate::config::StoreConfig;

/// Opens a table whose own tables beside it are there, or may be made.
pub(super) async fn open(
    store: &StoreConfig,
    layout: &Layout,
    limits: Limits,
    purpose: For,
) -> Result<Arc<dyn Store>, StoreError> {
    let migrate = if purpose == For::Work && store.migrate { Migrate::Auto } else { Migrate::Never };
    let ground = ground_for(store, purpose).await?;
    Ok(Arc::new(Adopted::open(options(store, layout, limits, migrate), ground).await?))
}

/// The tables beside it, whichever version they have and whether or not they are there.
pub(super) async fn schema(store: &StoreConfig, layout: &Layout) -> Result<Arc<dyn Schema>, StoreError> {
    Ok(Adopted::tables(&store.name, layout, ground(store).await?))
}

/// What is to be said of it.
pub(super) async fn examine(store: &StoreConfig, layout: &Layout, limits: Limits) -> Result<Vec<Found>, StoreError> {
    Adopted::open(options(store, layout, limits, Migrate::Never), ground(store).await?).await?.examine().await
}

/// The database of an adopted table.
pub async fn ground(store: &StoreConfig) -> Result<Arc<dyn Ground>, StoreError> {
    ground_for(store, For::Work).await
}

async fn ground_for(store: &StoreConfig, purpose: For) -> Result<Arc<dyn Ground>, StoreError> {
    match store.url.scheme() {
        "sqlite" => Ok(Arc::new(SqliteGround::open(sqlite(store, purpose)).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(PostgresGround::open(super::postgres(store, purpose)).await?)),
        _ => Err(unknown(store)),
    }
}

fn options(store: &StoreConfig, layout: &Layout, limits: Limits, migrate: Migrate) -> AdoptedOptions {
    AdoptedOptions { name: store.name.clone(), layout: layout.clone(), limits, migrate }
}
