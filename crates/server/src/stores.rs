//! Opens the stores of a configuration. One line here per kind of store.

use std::sync::Arc;

use postroom_core::{Limits, Schema, Store, StoreError, StoreErrorKind};
use postroom_sqlite::{Sqlite, SqliteOptions};

use crate::config::StoreConfig;

/// What to do with a database that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Make an empty one, as `store migrate up` does.
    Create,
    /// It is an error: a mistyped path must not become an empty store.
    Fail,
}

/// Opens a store whose tables are there in the version this build needs.
pub async fn open(store: &StoreConfig, limits: Limits) -> Result<Arc<dyn Store>, StoreError> {
    match store.url.scheme() {
        "sqlite" => Ok(Arc::new(Sqlite::open(sqlite(store).limits(limits)).await?)),
        _ => Err(unknown(store)),
    }
}

/// Opens a store's tables, whichever version they have and whether or not they are there.
pub async fn open_schema(store: &StoreConfig, missing: IfMissing) -> Result<Arc<dyn Schema>, StoreError> {
    let schema = match store.url.scheme() {
        "sqlite" => {
            let options = sqlite(store).create(missing == IfMissing::Create);
            Sqlite::open_unmigrated(options).await?.schema()
        }
        _ => return Err(unknown(store)),
    };
    schema.ok_or_else(|| {
        StoreError::new(StoreErrorKind::Invalid, "migrate", format!("store `{}` has no tables to make", store.name))
    })
}

/// The SQL that would make or mend a store's tables. Changes nothing, makes nothing.
pub async fn plan(store: &StoreConfig) -> Result<String, StoreError> {
    match store.url.scheme() {
        "sqlite" => Sqlite::plan(sqlite(store)).await,
        _ => Err(unknown(store)),
    }
}

fn sqlite(store: &StoreConfig) -> SqliteOptions {
    SqliteOptions::new(&store.name, store.url.expose())
}

/// A configuration that was loaded has only kinds this build knows; one made by hand may not.
fn unknown(store: &StoreConfig) -> StoreError {
    let message = format!("this build has no store for {}", store.url);
    StoreError::new(StoreErrorKind::Invalid, "open", message).hint("it has sqlite, for instance sqlite://postroom.db")
}
