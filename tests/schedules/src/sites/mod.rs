//! What a schedule runs on: a store, the ways of relays to it, and producers' transactions.

mod adopted;
mod postgres;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::ManagedStore;
use postroom_core::Event;
use postroom_testbed::FaultProxy;
use postroom_testbed::proxy::Gate;

pub(crate) use adopted::{AdoptedSite, kind};
pub(crate) use postgres::{PARTITIONS, PostgresSite};
pub(crate) use sqlite::SqliteSite;

/// A store for one run.
#[async_trait]
pub(crate) trait Site: Send + Sync {
    /// What it can do and promises.
    fn traits(&self) -> Traits;

    /// The store as operators and the checker use it, past every fault.
    fn store(&self) -> Arc<dyn ManagedStore>;

    /// The store as another relay process opens it, and the way there if statements can wait on it.
    async fn relay(&self) -> Door;

    /// A producer's transaction.
    async fn begin(&self) -> Box<dyn Transaction>;

    /// Whether a statement of somebody waits for a lock.
    async fn waits_for_lock(&self) -> bool;

    /// Part of the statement with which a take begins.
    fn take_begins(&self) -> &'static str;

    /// Whether a statement that waits may keep others from writing.
    fn is_in_the_way(&self, _: &str) -> bool {
        true
    }

    /// Draws numbers that nobody commits, as if other lanes had much to do.
    async fn skip_numbers(&self, numbers: u64);

    /// Moves the clock of the store.
    async fn advance(&self, by: Duration);

    /// Sets the clock of the store back.
    async fn set_back(&self, by: Duration);
}

/// What a store can do and promises.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// Most transactions that write at a time. Where it is one, it keeps relays and operators from writing, too.
    pub(crate) writers: usize,
    /// Whether a transaction can be prepared for a commit in two phases.
    pub(crate) prepares: bool,
    /// Whether an event can be appended for later.
    pub(crate) delays: bool,
    /// Whether events of one key are delivered in order.
    pub(crate) ordered: bool,
}

/// How one relay process reaches the store, and where it waits on the way.
pub(crate) struct Door {
    pub(crate) store: Arc<dyn ManagedStore>,
    /// Its connections, where it has any.
    pub(crate) proxy: Option<FaultProxy>,
    pub(crate) gate: Gate,
}

/// A producer's transaction.
#[async_trait]
pub(crate) trait Transaction: Send {
    async fn append(&mut self, event: &Event);
    async fn savepoint(&mut self);
    async fn rollback_to_savepoint(&mut self);
    async fn rollback(self: Box<Self>);
    async fn commit(self: Box<Self>);
    /// Prepares it for a commit in two phases; nothing may be appended any more.
    async fn prepare(self: Box<Self>) -> Box<dyn Transaction>;
}
