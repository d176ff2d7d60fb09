//! What commands, API and console ask of the store. Needs no relay; works beside any number of them.
//!
//! Each file answers one kind of question. What changes something writes the audit trail in the same transaction;
//! what may change very much does so in `turns`.

pub(crate) mod actions;
mod audit;
mod dead;
mod due;
mod events;
mod forget;
mod groups;
mod inbox;
mod keys;
mod lanes;
mod leaves;
mod minutes;
mod prune;
mod replays;
mod routes;
mod selection;
mod settled;
mod step;
mod summary;
mod timeline;
mod tokens;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::view::{
    ActionRow, Affected, AuditRow, BlockedKey, DeadGroup, DeliveryRow, EventRow, InboxPlace, InboxRow, KeyPlace,
    MinuteRow, Pruned, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, Timeline,
};
use postroom_core::{
    Actor, Desk, Event, NewToken, Page, ReplayChange, ReplayOrder, Retention, RouteDefinition, Selection, StoreError,
    Timestamp, TokenRow,
};

use crate::store::Inner;

/// The store as an operator sees it.
pub(crate) struct PostgresDesk(pub(crate) Arc<Inner>);

#[async_trait]
impl Desk for PostgresDesk {
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        events::append(&self.0, events).await
    }

    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        events::list(&self.0, which, page).await
    }

    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        timeline::of(&self.0, id, with_payload).await
    }

    async fn register(&self, routes: &[RouteDefinition]) -> Result<Vec<String>, StoreError> {
        crate::routes::register(&self.0, routes).await
    }

    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        routes::list(&self.0).await
    }

    async fn minutes(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<MinuteRow>, StoreError> {
        minutes::list(&self.0, route, from).await
    }

    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        routes::relays(&self.0).await
    }

    async fn store(&self) -> Result<StoreRow, StoreError> {
        events::store(&self.0).await
    }

    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::pause(&self.0, route, actor).await
    }

    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::resume(&self.0, route, actor).await
    }

    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError> {
        forget::forget(&self.0, route, actor).await
    }

    async fn dead(&self, which: &Selection, after: i64, limit: usize) -> Result<Vec<DeliveryRow>, StoreError> {
        dead::list(&self.0, which, after, limit).await
    }

    async fn dead_groups(&self, which: &Selection, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        groups::dead(&self.0, which, limit).await
    }

    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError> {
        dead::discard(&self.0, which, dry_run, actor).await
    }

    async fn preview_replay(
        &self,
        what: ReplayKind,
        which: &Selection,
        inbox_window: Option<Duration>,
    ) -> Result<Affected, StoreError> {
        replays::preview(&self.0, what, which, inbox_window).await
    }

    async fn start_replay(&self, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
        replays::start(&self.0, order, actor).await
    }

    async fn step_replay(&self, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
        step::step(&self.0, id, at_most).await
    }

    async fn replays(&self, state: Option<ReplayState>, limit: usize) -> Result<Vec<ReplayRow>, StoreError> {
        replays::list(&self.0, state, limit).await
    }

    async fn replay(&self, id: &str) -> Result<Option<ReplayRow>, StoreError> {
        replays::one(&self.0, id).await
    }

    async fn change_replay(&self, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
        replays::change(&self.0, id, change, actor).await
    }

    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyPlace>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError> {
        keys::blocked(&self.0, route, after, limit).await
    }

    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
        keys::unblock(&self.0, route, key, actor).await
    }

    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
        keys::skip_head(&self.0, route, key, actor).await
    }

    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxPlace>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError> {
        inbox::list(&self.0, consumer, id, after, limit).await
    }

    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
        inbox::forget(&self.0, consumer, id, actor).await
    }

    async fn audit(&self) -> Result<Vec<AuditRow>, StoreError> {
        audit::audit(&self.0).await
    }

    async fn actions(&self, before: Option<i64>, limit: usize) -> Result<Vec<ActionRow>, StoreError> {
        actions::newest(&self.0, before, limit).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        tokens::list(&self.0).await
    }

    async fn add_token(&self, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
        tokens::add(&self.0, token, actor).await
    }

    async fn revoke_token(&self, name: &str, actor: &Actor) -> Result<(), StoreError> {
        tokens::revoke(&self.0, name, actor).await
    }

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, dry_run).await
    }
}
