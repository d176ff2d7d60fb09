//! Opens the stores whose outbox is a table that is there already.

use std::sync::Arc;

use postroom_admin::ManagedStore;
use postroom_adopted::{Adopted, AdoptedOptions, Mapping, Migrate, SqlExecutor};
use postroom_core::{Diagnostic, Limits, Schema, StoreError};
#[cfg(feature = "postgres")]
use postroom_postgres::PostgresExecutor;
use postroom_sqlite::SqliteExecutor;

use super::{For, sqlite, unknown};
use crate::config::StoreConfig;

/// Opens a table whose own tables beside it are there, or may be made.
pub(super) async fn open(
    store: &StoreConfig,
    mapping: &Mapping,
    limits: Limits,
    purpose: For,
) -> Result<Arc<dyn ManagedStore>, StoreError> {
    let migrate = if purpose == For::Work && store.migrate { Migrate::Auto } else { Migrate::Never };
    let executor = ground_for(store, purpose).await?;
    Ok(Arc::new(Adopted::open(options(store, mapping, limits, migrate), executor).await?))
}

/// The tables beside it, whichever version they have and whether or not they are there.
pub(super) async fn schema(store: &StoreConfig, mapping: &Mapping) -> Result<Arc<dyn Schema>, StoreError> {
    Ok(Adopted::tables(&store.name, mapping, executor(store).await?))
}

/// What is to be said of it.
pub(super) async fn diagnose(
    store: &StoreConfig,
    mapping: &Mapping,
    limits: Limits,
    consumer: Option<&str>,
) -> Result<Vec<Diagnostic>, StoreError> {
    let adopted = Adopted::open(options(store, mapping, limits, Migrate::Never), executor(store).await?).await?;
    adopted.diagnose(consumer).await
}

/// The table with its schema, and the number of its rows that are to be delivered.
pub(super) async fn pending_rows(
    store: &StoreConfig,
    mapping: &Mapping,
    limits: Limits,
    counted_max: u64,
) -> Result<(String, u64), StoreError> {
    let table = Adopted::open(options(store, mapping, limits, Migrate::Never), executor(store).await?).await?;
    Ok((table.table().to_owned(), table.pending_rows(counted_max).await?))
}

/// The database of an adopted table.
pub async fn executor(store: &StoreConfig) -> Result<Arc<dyn SqlExecutor>, StoreError> {
    ground_for(store, For::Work).await
}

async fn ground_for(store: &StoreConfig, purpose: For) -> Result<Arc<dyn SqlExecutor>, StoreError> {
    match store.url.scheme() {
        "sqlite" => Ok(Arc::new(SqliteExecutor::open(sqlite(store, purpose)).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(PostgresExecutor::open(super::postgres(store, purpose)).await?)),
        _ => Err(unknown(store)),
    }
}

fn options(store: &StoreConfig, mapping: &Mapping, limits: Limits, migrate: Migrate) -> AdoptedOptions {
    let mut options = AdoptedOptions::new(&store.name, mapping.clone());
    (options.limits, options.migrate) = (limits, migrate);
    options
}
