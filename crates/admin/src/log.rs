//! The admin of a native log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_core::view::Pruned;
use postroom_core::{Actor, DeliveryState, Event, Retention, RouteSpec, StoreError};

use crate::backend::{Backend, LogBackend};
use crate::replays::Counts;
use crate::view::{
    Affected, AppendedRow, AuditRow, BlockedKey, Contents, DeliveryGroup, DeliveryRow, Erased, EventRow, InboxCursor,
    InboxRow, KeyCursor, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, ThroughputRow, Timeline,
    VerifyRow,
};
use crate::{
    Access, Inspect, NewToken, Operate, Page, ReplayChange, ReplayOrder, Replays, Selection, TokenRow, Undelivered,
    Verify, appended, audit, check_selection, dead, deliveries, erase, groups, inbox, keys, replays, routes, step,
    tokens,
};

/// How long a list of routes searches for due events of those whose first events are all for others.
const DUE_SEARCH_MAX: Duration = Duration::from_secs(1);

/// The operator's side of a native log.
pub struct LogAdmin {
    log: Arc<dyn LogBackend>,
    tables: Arc<dyn Backend>,
}

impl LogAdmin {
    /// The admin of this log.
    pub fn new(log: Arc<dyn LogBackend>) -> Self {
        Self { tables: Arc::clone(&log).tables(), log }
    }
}

impl std::fmt::Debug for LogAdmin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogAdmin").field("store", &self.log.store()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Inspect for LogAdmin {
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        self.log.events(which, page).await
    }

    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        self.log.event(id, with_payload).await
    }

    async fn contents(&self, rows: &[EventRow], with_payload: bool) -> Result<BTreeMap<i64, Contents>, StoreError> {
        let positions: Vec<i64> = rows.iter().map(|row| row.position).collect();
        self.log.contents(&positions, with_payload).await
    }

    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        let mut routes = self.log.routes().await?;
        let end = Instant::now() + DUE_SEARCH_MAX;
        for route in routes.iter_mut().filter(|route| route.status.due.is_none()) {
            deliveries::search_due(&*self.log, &mut route.status, end).await?;
        }
        Ok(routes)
    }

    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        self.log.relays().await
    }

    async fn store(&self) -> Result<StoreRow, StoreError> {
        self.log.describe().await
    }

    async fn deliveries(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        after: i64,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        deliveries::list(&*self.log, states, which, after, limit).await
    }

    async fn delivery_groups(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        limit: usize,
    ) -> Result<Vec<DeliveryGroup>, StoreError> {
        groups::list(&*self.log, states, which, limit).await
    }

    async fn appended(&self, from: Timestamp, interval: Duration) -> Result<Vec<AppendedRow>, StoreError> {
        appended::list(&*self.tables, from, interval).await
    }

    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyCursor>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError> {
        keys::blocked(&*self.log, route, after, limit).await
    }

    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxCursor>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError> {
        inbox::list(&*self.tables, consumer, id, after, limit).await
    }
}

#[async_trait]
impl Operate for LogAdmin {
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        self.log.append(events).await
    }

    async fn append_once(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        self.log.append_once(events).await
    }

    async fn register(&self, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
        self.log.register(routes).await
    }

    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::pause(&*self.log, route, actor).await
    }

    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::resume(&*self.log, route, actor).await
    }

    async fn probe(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        routes::probe(&*self.log, route, actor).await
    }

    async fn rename(&self, route: &str, to: &str, actor: &Actor) -> Result<(), StoreError> {
        routes::rename(&*self.log, route, to, actor).await
    }

    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError> {
        let status = self.routes().await?.into_iter().map(|detail| detail.status).find(|status| status.route == route);
        let unread = match status {
            Some(status) => {
                let left = Undelivered::of(self, &status).await?.deliveries();
                left.saturating_sub(deliveries::rows(&*self.log, route).await?)
            }
            None => 0,
        };
        self.log.forget(route, unread, actor).await
    }

    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError> {
        dead::discard(&*self.log, &*self.tables, which, dry_run, actor).await
    }

    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
        keys::unblock(&*self.log, route, key, actor).await
    }

    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
        keys::skip_head(&*self.log, route, key, actor).await
    }

    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
        inbox::forget(&*self.tables, consumer, id, actor).await
    }

    async fn note_payloads(&self, action: &'static str, subject: &str, actor: &Actor) -> Result<(), StoreError> {
        audit::begin(&*self.tables, actor, action, subject.to_owned()).await.map(drop)
    }

    async fn erase_payloads(
        &self,
        key: &str,
        undelivered: bool,
        dry_run: bool,
        actor: &Actor,
    ) -> Result<Erased, StoreError> {
        erase::erase(&*self.log, &*self.tables, key, undelivered, dry_run, actor).await
    }
}

#[async_trait]
impl Replays for LogAdmin {
    async fn preview_replay(
        &self,
        what: ReplayKind,
        which: &Selection,
        inbox_window: Option<Duration>,
    ) -> Result<Affected, StoreError> {
        check_selection(what, which)?;
        match what {
            ReplayKind::Settled => self.log.count_settled(which, inbox_window).await,
            ReplayKind::Dead => dead::count(&*self.log, which, inbox_window).await,
        }
    }

    async fn start_replay(&self, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
        step::start(&*self.log, &*self.tables, order, actor).await
    }

    async fn step_replay(&self, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
        step::step(&*self.log, &*self.tables, id, at_most).await
    }

    async fn replays(&self, state: Option<ReplayState>, limit: usize) -> Result<Vec<ReplayRow>, StoreError> {
        replays::list(&*self.tables, state, limit).await
    }

    async fn replay(&self, id: &str) -> Result<Option<ReplayRow>, StoreError> {
        Ok(replays::find(&*self.tables, id, Counts::With).await?.map(|replay| replay.row))
    }

    async fn change_replay(&self, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
        replays::change(&*self.tables, id, change, actor).await
    }
}

#[async_trait]
impl Access for LogAdmin {
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        tokens::list(&*self.tables).await
    }

    async fn add_token(&self, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
        tokens::add(&*self.tables, token, actor).await
    }

    async fn revoke_token(&self, name: &str, actor: &Actor) -> Result<(), StoreError> {
        tokens::revoke(&*self.tables, name, actor).await
    }

    async fn rotate_token(
        &self,
        name: &str,
        hash: &str,
        keep: Duration,
        actor: &Actor,
    ) -> Result<TokenRow, StoreError> {
        tokens::rotate(&*self.tables, name, hash, keep, actor).await
    }

    async fn token_used(&self, name: &str) -> Result<(), StoreError> {
        tokens::used(&*self.tables, name).await
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        audit::list(&*self.tables, before, limit).await
    }
}

#[async_trait]
impl Verify for LogAdmin {
    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError> {
        self.log.verify().await
    }

    async fn throughput(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<ThroughputRow>, StoreError> {
        self.log.throughput(route, from).await
    }

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        self.log.prune(retention, dry_run).await
    }
}
