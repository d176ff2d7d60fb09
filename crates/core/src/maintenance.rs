//! What looks after a store's server side: rights, sizes, and getting over a restore.

use async_trait::async_trait;

use crate::diagnostic::Diagnostic;
use crate::error::StoreError;
use crate::view::{Accepted, Repaired, StoreGauges, StoreStats};

/// Actor of an operation, with a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Name of the actor.
    pub name: String,
    /// Reason, if the actor gave one.
    pub reason: Option<String>,
}

/// Maintenance of a store on a server, which also works while the store itself is refused.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Returns SQL that creates least-privilege roles, one per task, and may run repeatedly. Changes nothing itself.
    fn roles(&self) -> String;

    /// Returns the sizes of the store's tables, and the session that keeps the server from cleaning up.
    async fn stats(&self) -> Result<StoreStats, StoreError>;

    /// Returns the values that are measured all the time; cheap enough for every few seconds.
    async fn gauges(&self) -> Result<StoreGauges, StoreError>;

    /// Diagnoses the server, and the tables if they exist. Changes nothing.
    async fn diagnose(&self) -> Result<Vec<Diagnostic>, StoreError>;

    /// Repairs sequences that are behind, and delivers events that routes have passed without reading them. Audited.
    ///
    /// `dry_run` says what it would do.
    async fn repair(&self, dry_run: bool, actor: &Actor) -> Result<Repaired, StoreError>;

    /// Accepts this server as the home of the store: after a restore, an upgrade, a failover. Audited.
    ///
    /// Every lane is taken from whoever had it. What transactions of the former server had committed unseen is delivered.
    /// `dry_run` says what it would do.
    async fn accept_identity(&self, dry_run: bool, actor: &Actor) -> Result<Accepted, StoreError>;
}
