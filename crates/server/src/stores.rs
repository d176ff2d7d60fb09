//! Opens the stores of a configuration. One line here per kind of store.

#[cfg(feature = "adopted")]
mod adopted;

use std::sync::Arc;

use postroom_core::view::Found;
use postroom_core::{Limits, Schema, Store, StoreError, StoreErrorKind, Upkeep};
#[cfg(feature = "postgres")]
use postroom_postgres::{Pooler, Postgres, PostgresOptions};
use postroom_sqlite::{Sqlite, SqliteOptions};

#[cfg(feature = "postgres")]
use crate::config::PoolerConfig;
use crate::config::StoreConfig;

#[cfg(feature = "adopted")]
pub use adopted::ground;

/// What to do with a database that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Make an empty one, as `store migrate up` does.
    Create,
    /// It is an error: a mistyped path must not become an empty store.
    Fail,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Relays and commands.
    Work,
    /// Those who look while relays work: few connections, nothing that takes long.
    Looking,
}

/// Opens a store whose tables are there in the version this build needs.
pub async fn open(store: &StoreConfig, limits: Limits) -> Result<Arc<dyn Store>, StoreError> {
    open_for(store, limits, For::Work).await
}

/// The same for those who look while relays work: few connections of its own, and nothing that takes long. Makes no tables.
pub async fn open_for_looking(store: &StoreConfig, limits: Limits) -> Result<Arc<dyn Store>, StoreError> {
    open_for(store, limits, For::Looking).await
}

async fn open_for(store: &StoreConfig, limits: Limits, purpose: For) -> Result<Arc<dyn Store>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(layout) = &store.layout {
        return adopted::open(store, layout, limits, purpose).await;
    }
    match store.url.scheme() {
        "sqlite" => Ok(Arc::new(Sqlite::open(sqlite(store, purpose).limits(limits)).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(Postgres::open(postgres(store, purpose).limits(limits)).await?)),
        _ => Err(unknown(store)),
    }
}

/// Opens a store's tables, whichever version they have and whether or not they are there.
pub async fn open_schema(store: &StoreConfig, missing: IfMissing) -> Result<Arc<dyn Schema>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(layout) = &store.layout {
        return adopted::schema(store, layout).await;
    }
    let schema = match store.url.scheme() {
        "sqlite" => {
            let options = sqlite(store, For::Work).create(missing == IfMissing::Create);
            Sqlite::open_unmigrated(options).await?.schema()
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Postgres::open_unmigrated(postgres(store, For::Work)).await?.schema(),
        _ => return Err(unknown(store)),
    };
    schema.ok_or_else(|| {
        StoreError::new(StoreErrorKind::Invalid, "migrate", format!("store `{}` has no tables to make", store.name))
    })
}

/// Opens what looks after a store on its server, also where [`open`] refuses: on another cluster than the tables were
/// made for.
#[cfg_attr(not(feature = "postgres"), allow(clippy::unused_async, reason = "other stores connect here"))]
pub async fn open_upkeep(store: &StoreConfig) -> Result<Arc<dyn Upkeep>, StoreError> {
    let upkeep = match store.url.scheme() {
        "sqlite" => None,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Postgres::open_unmigrated(postgres(store, For::Work)).await?.upkeep(),
        _ => return Err(unknown(store)),
    };
    upkeep.ok_or_else(|| {
        let message = format!("store `{}` has no server to look after", store.name);
        StoreError::new(StoreErrorKind::Invalid, "open", message).hint("only a store on PostgreSQL has")
    })
}

/// What is to be said of a store's database, also where [`open`] refuses. Changes nothing.
pub async fn examine_database(store: &StoreConfig) -> Result<Vec<Found>, StoreError> {
    match store.url.scheme() {
        "sqlite" => Sqlite::open_unmigrated(sqlite(store, For::Work)).await?.examine().await,
        _ => open_upkeep(store).await?.examine().await,
    }
}

/// What is to be said of the table a store adopts, if it adopts one. Changes nothing.
#[cfg_attr(
    not(feature = "adopted"),
    expect(clippy::unused_async, unused_variables, reason = "without such tables there is nothing to ask")
)]
pub async fn examine_table(store: &StoreConfig, limits: Limits) -> Result<Vec<Found>, StoreError> {
    #[cfg(feature = "adopted")]
    if let Some(layout) = &store.layout {
        return adopted::examine(store, layout, limits).await;
    }
    Ok(Vec::new())
}

/// The SQL that would make or mend a store's tables. Changes nothing, makes nothing.
pub async fn plan(store: &StoreConfig) -> Result<String, StoreError> {
    match store.url.scheme() {
        "sqlite" if !store.adopts() => Sqlite::plan(sqlite(store, For::Work)).await,
        _ => open_schema(store, IfMissing::Fail).await?.plan().await,
    }
}

fn sqlite(store: &StoreConfig, purpose: For) -> SqliteOptions {
    let options = SqliteOptions::new(&store.name, store.url.expose());
    if purpose == For::Looking { options.for_looking() } else { options }
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
    if let Some(leaves) = config.leaves {
        options = options.leaves(leaves);
    }
    if let Some(segment) = config.segment {
        options = options.segment(segment);
    }
    if purpose == For::Looking { options.for_looking() } else { options }
}

/// A configuration that was loaded has only kinds this build knows; one made by hand may not.
fn unknown(store: &StoreConfig) -> StoreError {
    let message = format!("this build has no store for {}", store.url);
    let has = if cfg!(feature = "postgres") { "sqlite and postgres" } else { "sqlite" };
    StoreError::new(StoreErrorKind::Invalid, "open", message)
        .hint(format!("it has {has}, for instance sqlite://postroom.db"))
}
