//! What commands, API and console ask of this store.

pub(crate) mod actions;

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::view::{
    ActionRow, Affected, AuditRow, BlockedKey, DeliveryRow, EventRow, InboxRow, Pruned, RelayRow, RouteDetail,
    StoreRow, Timeline,
};
use postroom_core::{Actor, Desk, Event, Page, ReplayOptions, Retention, RouteDefinition, Selection, StoreError};

use crate::store::Inner;

/// The desk of one store.
pub(crate) struct PostgresDesk(pub(crate) Arc<Inner>);

#[async_trait]
#[allow(unused_variables)]
impl Desk for PostgresDesk {
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        unimplemented!()
    }
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        unimplemented!()
    }
    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        unimplemented!()
    }
    async fn register(&self, routes: &[RouteDefinition]) -> Result<Vec<String>, StoreError> {
        unimplemented!()
    }
    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        unimplemented!()
    }
    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        unimplemented!()
    }
    async fn store(&self) -> Result<StoreRow, StoreError> {
        unimplemented!()
    }
    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        unimplemented!()
    }
    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        unimplemented!()
    }
    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError> {
        unimplemented!()
    }
    async fn dead(&self, which: &Selection, after: i64, limit: usize) -> Result<Vec<DeliveryRow>, StoreError> {
        unimplemented!()
    }
    async fn replay_dead(&self, which: &Selection, how: ReplayOptions, actor: &Actor) -> Result<Affected, StoreError> {
        unimplemented!()
    }
    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError> {
        unimplemented!()
    }
    async fn replay(&self, which: &Selection, how: ReplayOptions, actor: &Actor) -> Result<Affected, StoreError> {
        unimplemented!()
    }
    async fn blocked_keys(&self, route: Option<&str>, limit: usize) -> Result<Vec<BlockedKey>, StoreError> {
        unimplemented!()
    }
    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
        unimplemented!()
    }
    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
        unimplemented!()
    }
    async fn inbox(&self, consumer: Option<&str>, id: Option<&str>, limit: usize) -> Result<Vec<InboxRow>, StoreError> {
        unimplemented!()
    }
    async fn audit(&self) -> Result<Vec<AuditRow>, StoreError> {
        unimplemented!()
    }
    async fn actions(&self, limit: usize) -> Result<Vec<ActionRow>, StoreError> {
        unimplemented!()
    }
    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        unimplemented!()
    }
}
