//! What looks after a store's server side: rights, sizes, and getting over a restore.

use async_trait::async_trait;

use crate::desk::Actor;
use crate::error::StoreError;
use crate::view::{Accepted, Found, Repaired, StoreStats, Vitals};

/// The upkeep of a store on a server. It works also where the store itself is refused.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// SQL that makes one role per task with the least rights, and may run again and again. Changes nothing itself.
    fn roles(&self) -> String;

    /// How large things are, and who keeps the server from cleaning up.
    async fn stats(&self) -> Result<StoreStats, StoreError>;

    /// What of it is watched all the time; cheap enough to be asked every few seconds.
    async fn vitals(&self) -> Result<Vitals, StoreError>;

    /// What is wrong with the server, or will be: with the tables too, where they are there. Changes nothing.
    async fn examine(&self) -> Result<Vec<Found>, StoreError>;

    /// Makes the next number larger than every one that was seen or is in the log, and delivers events that routes have passed
    /// without seeing them. Audited.
    ///
    /// `dry_run` says what it would do.
    async fn repair(&self, dry_run: bool, actor: &Actor) -> Result<Repaired, StoreError>;

    /// Says that this server is where the store lives from now on: after a restore, an upgrade, a failover. Audited.
    ///
    /// Every lane is taken from whoever had it. What transactions of the former server had committed unseen is delivered.
    /// `dry_run` says what it would do.
    async fn accept_identity(&self, dry_run: bool, actor: &Actor) -> Result<Accepted, StoreError>;
}
