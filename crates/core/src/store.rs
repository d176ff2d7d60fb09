//! A store as a relay opens it: sources for its routes, and its retention.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::maintenance::Maintenance;
use crate::route::RouteSpec;
use crate::source::Source;
use crate::view::Pruned;

/// Identity of a relay. Two relays of one name have different boot ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayIdentity {
    /// Configured name.
    pub name: String,
    /// Random boot id, new at every start.
    pub boot: String,
    /// Version of the program.
    pub version: String,
    /// Time that a heartbeat keeps the lanes of the relay.
    pub lease: Duration,
}

/// Store: a database with an outbox.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the name of the store in the configuration.
    fn name(&self) -> &str;

    /// Registers the route if it is new, and opens it for this relay.
    ///
    /// A changed filter or destination applies from the position on and is audited. A live relay with another
    /// definition of the same route is a [`crate::StoreErrorKind::Conflict`].
    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError>;

    /// Returns the retention that a relay applies.
    fn retain(&self) -> Arc<dyn Retain>;

    /// Returns the schema of the store; `None` if it has no tables to create.
    fn schema(&self) -> Option<Arc<dyn Schema>>;

    /// Returns the maintenance of the store on its server; `None` if there is no server.
    fn maintenance(&self) -> Option<Arc<dyn Maintenance>>;
}

/// Forwards every method.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        (**self).source(relay, route).await
    }

    fn retain(&self) -> Arc<dyn Retain> {
        (**self).retain()
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        (**self).schema()
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        (**self).maintenance()
    }
}

/// Retention of data. `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Retention of events that are settled on every route. Defaults to 7 days.
    pub delivered: Option<Duration>,
    /// Retention of failed attempts of settled deliveries, and of receipts. Defaults to 7 days.
    pub attempts: Option<Duration>,
    /// Retention of acceptances, and of idempotency keys of `append_once`. Defaults to 14 days.
    pub inbox: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |n: u64| Some(Duration::from_secs(n * 86_400));
        Self { delivered: days(7), attempts: days(7), inbox: days(14) }
    }
}

/// Retention as a relay applies it, beside its deliveries.
#[async_trait]
pub trait Retain: Send + Sync {
    /// Removes rows older than the retention, and rows that only the store itself needed.
    async fn prune(&self, retention: &Retention) -> Result<Pruned, StoreError>;
}

/// Schema of a store: its tables and migrations.
#[async_trait]
pub trait Schema: Send + Sync {
    /// Returns the current and the needed schema version.
    async fn status(&self) -> Result<SchemaStatus, StoreError>;
    /// Returns the SQL that `up` would run, for manual use. Changes nothing.
    async fn plan(&self) -> Result<String, StoreError>;
    /// Applies missing migrations, each of them atomic, and returns them.
    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError>;
    /// Reverts the latest migration. All data in its tables is lost.
    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError>;
}

/// Current and needed schema version of a store.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaStatus {
    /// Name of the store.
    pub store: String,
    /// Current version; 0 is none.
    pub version: i64,
    /// Version that this build needs.
    pub needs: i64,
    /// Migrations, applied or not.
    pub steps: Vec<SchemaStep>,
}

/// Numbered migration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaStep {
    /// Number of the migration.
    pub version: i64,
    /// Short description of the migration.
    pub name: String,
    /// Whether the migration is applied.
    pub applied: bool,
}
