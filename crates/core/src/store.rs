//! A store as the server opens it: it gives relays their sources and commands their desk.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::desk::Desk;
use crate::error::StoreError;
use crate::route::RouteDefinition;
use crate::source::Source;
use crate::upkeep::Upkeep;

/// Who a relay is. Two relays of one name are told apart by their boot ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayIdentity {
    /// The configured name.
    pub name: String,
    /// Random, new at every start.
    pub boot: String,
    /// Version of the program.
    pub version: String,
    /// How long a heartbeat keeps its lanes.
    pub lease: Duration,
}

/// One database.
#[async_trait]
pub trait Store: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Registers the route if it is new, and opens it for this relay.
    ///
    /// A changed filter or destination applies from the position on and is audited. A live relay with another
    /// definition of the same route is a [`crate::StoreErrorKind::Conflict`].
    async fn source(&self, relay: &RelayIdentity, route: &RouteDefinition) -> Result<Arc<dyn Source>, StoreError>;

    /// What commands, API and console ask.
    fn desk(&self) -> Arc<dyn Desk>;

    /// Its tables; `None` where there are none to make.
    fn schema(&self) -> Option<Arc<dyn Schema>>;

    /// What looks after it on its server; `None` where there is no server.
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>>;
}

/// Forwards every method.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteDefinition) -> Result<Arc<dyn Source>, StoreError> {
        (**self).source(relay, route).await
    }

    fn desk(&self) -> Arc<dyn Desk> {
        (**self).desk()
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        (**self).schema()
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        (**self).upkeep()
    }
}

/// The tables of a store.
#[async_trait]
pub trait Schema: Send + Sync {
    /// Which version is there, which is wanted.
    async fn status(&self) -> Result<SchemaStatus, StoreError>;
    /// The SQL that `up` would run, for teams that apply their own. Changes nothing.
    async fn plan(&self) -> Result<String, StoreError>;
    /// Applies what is missing; each step is atomic. Returns the steps applied.
    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError>;
    /// Undoes the newest step. Everything in its tables is lost.
    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError>;
}

/// Which version of the tables is there, which is wanted.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaStatus {
    /// The store.
    pub store: String,
    /// The version there; 0 is none.
    pub version: i64,
    /// The version this build needs.
    pub needs: i64,
    /// Steps, applied or not.
    pub steps: Vec<SchemaStep>,
}

/// One numbered migration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaStep {
    /// Its number.
    pub version: i64,
    /// What it does, in a few words.
    pub name: String,
    /// Whether it is in force.
    pub applied: bool,
}
