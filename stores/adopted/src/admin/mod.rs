//! What commands ask of an adopted table: the same as of the native log.

mod dead;
mod deliveries;
mod events;
mod groups;
mod inbox;
mod keys;
mod pending;
mod prune;
mod query;
mod replays;
pub(crate) mod routes;
mod tables;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin as shared;
use postroom_admin::view::{
    Affected, AppendedRow, AuditRow, BlockedKey, DeliveryGroup, DeliveryRow, Erased, EventRow, InboxCursor, InboxRow,
    KeyCursor, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, ThroughputRow, Timeline, VerifyRow,
};
use postroom_admin::{
    Access, Inspect, NewToken, Operate, Page, ReplayChange, ReplayOrder, Replays, Selection, TokenRow, Verify,
};
use postroom_core::view::Pruned;
use postroom_core::{Actor, DeliveryState, Event, Retain, Retention, RouteSpec, StoreError, StoreErrorKind, Timestamp};

use self::routes::Switch;
use self::tables::Tables;
use crate::store::Inner;

/// An adopted table as an operator sees it.
pub(crate) struct AdoptedAdmin(pub(crate) Arc<Inner>);

#[async_trait]
impl Inspect for AdoptedAdmin {
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        events::list(&self.0, which, page).await
    }

    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        events::timeline(&self.0, id, with_payload).await
    }

    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        routes::list(&self.0).await
    }

    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        routes::all_relays(&self.0).await
    }

    async fn store(&self) -> Result<StoreRow, StoreError> {
        routes::store(&self.0).await
    }

    async fn deliveries(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        after: i64,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        deliveries::list(&self.0, states, which, after, limit).await
    }

    async fn delivery_groups(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        limit: usize,
    ) -> Result<Vec<DeliveryGroup>, StoreError> {
        groups::list(&self.0, states, which, limit).await
    }

    async fn appended(&self, from: Timestamp, interval: Duration) -> Result<Vec<AppendedRow>, StoreError> {
        events::appended(&self.0, from, interval).await
    }

    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyCursor>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError> {
        keys::blocked(&self.0, route, after, limit).await
    }

    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxCursor>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError> {
        inbox::list(&self.0, consumer, id, after, limit).await
    }
}

impl AdoptedAdmin {
    fn written_by_its_application(&self) -> StoreError {
        let message = format!(
            "store {:?} is the adopted table {}, which its application writes",
            self.0.name, self.0.mapping_name
        );
        StoreError::new(StoreErrorKind::Invalid, "append", message)
            .hint("insert a row as the application does, or append to a store with a log of its own")
    }
}

#[async_trait]
impl Operate for AdoptedAdmin {
    async fn append(&self, _: &[Event]) -> Result<Vec<String>, StoreError> {
        Err(self.written_by_its_application())
    }

    async fn append_once(&self, _: &[Event]) -> Result<Vec<String>, StoreError> {
        Err(self.written_by_its_application())
    }

    async fn register(&self, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
        routes::register(&self.0, routes).await
    }

    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::switch(&self.0, route, actor, Switch::Pause).await
    }

    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::switch(&self.0, route, actor, Switch::Resume).await
    }

    async fn probe(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::switch(&self.0, route, actor, Switch::Probe).await
    }

    async fn rename(&self, route: &str, to: &str, actor: &Actor) -> Result<(), StoreError> {
        routes::rename(&self.0, route, to, actor).await
    }

    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError> {
        routes::forget(&self.0, route, actor).await
    }

    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError> {
        dead::discard(&self.0, which, dry_run, actor).await
    }

    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
        keys::unblock(&self.0, route, key, actor).await
    }

    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
        keys::skip_head(&self.0, route, key, actor).await
    }

    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
        inbox::forget(&self.0, consumer, id, actor).await
    }

    async fn note_payloads(&self, action: &'static str, subject: &str, actor: &Actor) -> Result<(), StoreError> {
        shared::audit::begin(&Tables(&self.0), actor, action, subject.to_owned()).await.map(drop)
    }

    async fn erase_payloads(&self, key: &str, _: bool, _: bool, _: &Actor) -> Result<Erased, StoreError> {
        let message = format!(
            "store {:?} is the adopted table {}: the payloads of key {key:?} belong to its application",
            self.0.name, self.0.mapping_name
        );
        Err(StoreError::new(StoreErrorKind::Invalid, "erase", message)
            .hint(format!("update or delete the rows of {} as the application does", self.0.mapping_name)))
    }
}

#[async_trait]
impl Replays for AdoptedAdmin {
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
        replays::step(&self.0, id, at_most).await
    }

    async fn replays(&self, state: Option<ReplayState>, limit: usize) -> Result<Vec<ReplayRow>, StoreError> {
        shared::replays::list(&Tables(&self.0), state, limit).await
    }

    async fn replay(&self, id: &str) -> Result<Option<ReplayRow>, StoreError> {
        Ok(shared::replays::find(&Tables(&self.0), id, shared::replays::Counts::Without)
            .await?
            .map(|replay| replay.row))
    }

    async fn change_replay(&self, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
        shared::replays::change(&Tables(&self.0), id, change, actor).await
    }
}

#[async_trait]
impl Access for AdoptedAdmin {
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        shared::tokens::list(&Tables(&self.0)).await
    }

    async fn add_token(&self, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
        shared::tokens::add(&Tables(&self.0), token, actor).await
    }

    async fn revoke_token(&self, name: &str, actor: &Actor) -> Result<(), StoreError> {
        shared::tokens::revoke(&Tables(&self.0), name, actor).await
    }

    async fn rotate_token(
        &self,
        name: &str,
        hash: &str,
        keep: Duration,
        actor: &Actor,
    ) -> Result<TokenRow, StoreError> {
        shared::tokens::rotate(&Tables(&self.0), name, hash, keep, actor).await
    }

    async fn token_used(&self, name: &str) -> Result<(), StoreError> {
        shared::tokens::used(&Tables(&self.0), name).await
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        shared::audit::list(&Tables(&self.0), before, limit).await
    }
}

#[async_trait]
impl Verify for AdoptedAdmin {
    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError> {
        verify::verify(&self.0).await
    }

    async fn throughput(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<ThroughputRow>, StoreError> {
        shared::throughput::list(&Tables(&self.0), route, from).await
    }

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, dry_run).await
    }
}

#[async_trait]
impl Retain for AdoptedAdmin {
    async fn prune(&self, retention: &Retention) -> Result<Pruned, StoreError> {
        prune::prune(&self.0, retention, false).await
    }
}
