//! Opens the stores of a configuration. One line here per kind of store.

#[cfg(feature = "adopted")]
mod adopted;

use std::sync::Arc;

use postroom_admin::ManagedStore;
use postroom_core::{Diagnostic, Limits, Maintenance, Schema, Store as _, StoreError, StoreErrorKind};
#[cfg(feature = "postgres")]
use postroom_postgres::{Pooler, PostgresOptions, PostgresStore};
use postroom_sqlite::{SqliteOptions, SqliteStore};

#[cfg(feature = "postgres")]
use crate::config::PoolerConfig;
use crate::config::StoreConfig;

#[cfg(feature = "adopted")]
pub use adopted::executor;

/// Handling of a database that does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Make an empty one, as `store migrate up` does.
    Create,
    /// It is an error: a mistyped path must not become an empty store.
    Fail,
}

/// Purpose for which a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Relays and commands.
    Work,
    /// Admin connections beside the relays: few, and nothing that takes long.
    Admin,
}

/// Opens a store whose tables are there in the version this build needs.
pub async fn open(store: &StoreConfig, limits: Limits) -> Result<Arc<dyn ManagedStore>, StoreError> {
    open_for(store, limits, For::Work).await
}

/// Opens a store for admin connections beside the relays: few of its own, and nothing that takes long. Makes no tables.
pub async fn open_for_admin(store: &StoreConfig, limits: Limits) -> Result<Arc<dyn ManagedStore>, StoreError> {
    open_for(store, limits, For::Admin).await
}

async fn open_for(store: &StoreConfig, limits: Limits, purpose: For) -> Result<Arc<dyn ManagedStore>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(mapping) = &store.mapping {
        return adopted::open(store, mapping, limits, purpose).await;
    }
    match store.url.scheme() {
        "sqlite" => Ok(Arc::new(SqliteStore::open(sqlite(store, purpose).limits(limits)).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(PostgresStore::open(postgres(store, purpose).limits(limits)).await?)),
        _ => Err(unknown(store)),
    }
}

/// Opens a store's tables, whichever version they have and whether or not they are there.
///
/// A migration tells them these limits.
#[cfg_attr(
    not(feature = "postgres"),
    allow(unused_variables, reason = "functions of SQL hold the limits, and SQLite has none")
)]
pub async fn open_schema(
    store: &StoreConfig,
    limits: Limits,
    missing: IfMissing,
) -> Result<Arc<dyn Schema>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(mapping) = &store.mapping {
        return adopted::schema(store, mapping).await;
    }
    let schema = match store.url.scheme() {
        "sqlite" => {
            let options = sqlite(store, For::Work).create(missing == IfMissing::Create);
            SqliteStore::open_unmigrated(options).await?.schema()
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            PostgresStore::open_unmigrated(postgres(store, For::Work).limits(limits)).await?.schema()
        }
        _ => return Err(unknown(store)),
    };
    schema.ok_or_else(|| {
        StoreError::new(StoreErrorKind::Invalid, "migrate", format!("store `{}` has no tables to make", store.name))
    })
}

/// Opens what looks after a store on its server, also where [`open`] refuses: on another cluster than the tables were
/// made for.
#[cfg_attr(not(feature = "postgres"), allow(clippy::unused_async, reason = "other stores connect here"))]
pub async fn open_maintenance(store: &StoreConfig) -> Result<Arc<dyn Maintenance>, StoreError> {
    let maintenance = match store.url.scheme() {
        "sqlite" => None,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => PostgresStore::open_unmigrated(postgres(store, For::Work)).await?.maintenance(),
        _ => return Err(unknown(store)),
    };
    maintenance.ok_or_else(|| {
        let message = format!("store `{}` has no server to look after", store.name);
        StoreError::new(StoreErrorKind::Invalid, "open", message).hint("only a store on PostgreSQL has")
    })
}

/// Diagnoses the database of a store, also if [`open`] refuses it. Changes nothing.
pub async fn diagnose_database(store: &StoreConfig) -> Result<Vec<Diagnostic>, StoreError> {
    match store.url.scheme() {
        "sqlite" => SqliteStore::open_unmigrated(sqlite(store, For::Work)).await?.diagnose().await,
        _ => open_maintenance(store).await?.diagnose().await,
    }
}

/// The kinds of stores of this build, each with the newest schema version it knows. Older ones are migrated.
pub const SCHEMA_VERSIONS: &[(&str, i64)] = &[
    ("sqlite", SqliteStore::SCHEMA_VERSION),
    #[cfg(feature = "postgres")]
    ("postgres", PostgresStore::SCHEMA_VERSION),
];

/// What is to be said of the table a store adopts, if it adopts one, and of the inbox of its route's consumer. Changes nothing.
#[cfg_attr(
    not(feature = "adopted"),
    expect(clippy::unused_async, unused_variables, reason = "without such tables there is nothing to ask")
)]
pub async fn diagnose_table(
    store: &StoreConfig,
    limits: Limits,
    consumer: Option<&str>,
) -> Result<Vec<Diagnostic>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(mapping) = &store.mapping {
        return adopted::diagnose(store, mapping, limits, consumer).await;
    }
    Ok(Vec::new())
}

/// The table that a store adopts, with the number of its rows that are to be delivered, up to a maximum; `None` if the store
/// has a log of its own.
#[cfg_attr(
    not(feature = "adopted"),
    expect(clippy::unused_async, unused_variables, reason = "without such tables there is nothing to ask")
)]
pub(crate) async fn pending_rows(
    store: &StoreConfig,
    limits: Limits,
    counted_max: u64,
) -> Result<Option<(String, u64)>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(mapping) = &store.mapping {
        return adopted::pending_rows(store, mapping, limits, counted_max).await.map(Some);
    }
    Ok(None)
}

/// The SQL that would make or fix a store's tables. Changes nothing, makes nothing.
pub async fn plan(store: &StoreConfig, limits: Limits) -> Result<String, StoreError> {
    match store.url.scheme() {
        "sqlite" if !store.adopts() => SqliteStore::plan(sqlite(store, For::Work)).await,
        _ => open_schema(store, limits, IfMissing::Fail).await?.plan().await,
    }
}

fn sqlite(store: &StoreConfig, purpose: For) -> SqliteOptions {
    let options = SqliteOptions::new(&store.name, store.url.expose());
    if purpose == For::Admin { options.for_admin() } else { options }
}

#[cfg(feature = "postgres")]
fn postgres(store: &StoreConfig, purpose: For) -> PostgresOptions {
    let (url, config) = (store.url.expose(), &store.postgres);
    let pooler = match config.pooler {
        PoolerConfig::Auto => Pooler::Auto,
        PoolerConfig::None => Pooler::None,
        PoolerConfig::Transaction => Pooler::Transaction,
    };
    let mut options = PostgresOptions::new(&store.name, url)
        .urls(std::iter::once(url).chain(store.more_urls.iter().map(postroom_core::SecretUrl::expose)))
        .schema(&config.schema)
        .pooler(pooler);
    if let Some(lanes) = config.lanes {
        options = options.lanes(lanes);
    }
    if let Some(partitions) = config.partitions {
        options = options.partitions(partitions);
    }
    if let Some(segment) = config.segment {
        options = options.segment(segment);
    }
    if purpose == For::Admin { options.for_admin() } else { options }
}

/// A configuration that was loaded has only kinds this build knows; one made by hand may not.
fn unknown(store: &StoreConfig) -> StoreError {
    let message = format!("this build has no store for {}", store.url);
    let has = if cfg!(feature = "postgres") { "sqlite and postgres" } else { "sqlite" };
    StoreError::new(StoreErrorKind::Invalid, "open", message)
        .hint(format!("it has {has}, for instance sqlite://postroom.db"))
}
