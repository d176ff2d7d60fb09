//! What commands ask of the store. Each part of the admin is a file of its own; this one is the list.

mod act;
mod counting;
mod erase;
mod look;
mod prune;
mod replay;
mod sums;
mod tokens;

use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::view::{
    Affected, AppendedRow, AuditRow, BlockedKey, DeliveryGroup, DeliveryRow, Erased, EventRow, InboxCursor, InboxRow,
    KeyCursor, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, ThroughputRow, Timeline, VerifyRow,
};
use postroom_admin::{
    Access, Inspect, NewToken, Operate, Page, ReplayChange, ReplayOrder, Replays, Selection, TokenRow, Verify, once_key,
};
use postroom_core::view::Pruned;
use postroom_core::{Actor, DeliveryState, Event, Outbox, Retain, Retention, RouteSpec, StoreError, Timestamp};

use crate::MemoryStore;
use crate::route::check_name;
pub(crate) use replay::Replay;

#[async_trait]
impl Inspect for MemoryStore {
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        Ok(self.lock().events(which, page))
    }

    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        let now = self.now();
        Ok(self.lock().timeline(id, with_payload, now))
    }

    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        let (now, elapsed) = (self.now(), self.inner.clock.elapsed());
        Ok(self.lock().details(now, elapsed))
    }

    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        let elapsed = self.inner.clock.elapsed();
        Ok(self.lock().relay_rows(elapsed))
    }

    async fn store(&self) -> Result<StoreRow, StoreError> {
        Ok(self.lock().store_row())
    }

    async fn deliveries(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        after: i64,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        let now = self.now();
        Ok(self.lock().delivery_rows(states, which, after, limit, now))
    }

    async fn delivery_groups(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        limit: usize,
    ) -> Result<Vec<DeliveryGroup>, StoreError> {
        Ok(self.lock().delivery_groups(states, which, limit))
    }

    async fn appended(&self, from: Timestamp, interval: Duration) -> Result<Vec<AppendedRow>, StoreError> {
        Ok(self.lock().appended(from, interval))
    }

    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyCursor>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError> {
        Ok(self.lock().blocked_keys(route, after, limit))
    }

    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxCursor>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError> {
        Ok(self.lock().inbox_rows(consumer, id, after, limit))
    }
}

#[async_trait]
impl Operate for MemoryStore {
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        let mut tx = self.begin();
        let appended = self.append_many(&mut tx, events).await?;
        tx.commit();
        appended.wake();
        Ok(appended.ids().to_vec())
    }

    async fn append_once(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        let mut tx = self.begin();
        let mut ids = Vec::new();
        for event in events {
            let appended = Outbox::append_once(self, &mut tx, &once_key(&event.id), event).await?;
            ids.extend_from_slice(appended.ids());
        }
        tx.commit();
        Ok(ids)
    }

    async fn register(&self, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError> {
        let now = self.now();
        for route in routes {
            check_name(&route.name)?;
        }
        let mut state = self.lock();
        let mut new = Vec::new();
        for route in routes {
            if state.register(route, now)? {
                new.push(route.name.clone());
            }
        }
        Ok(new)
    }

    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        let now = self.now();
        self.lock().pause(route, actor, now)
    }

    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        let now = self.now();
        let resumed = self.lock().resume(route, actor, now)?;
        self.inner.wake.wake();
        Ok(resumed)
    }

    async fn probe(&self, route: &str, actor: &Actor) -> Result<bool, StoreError> {
        let now = self.now();
        self.lock().probe(route, actor, now)
    }

    async fn rename(&self, route: &str, to: &str, actor: &Actor) -> Result<(), StoreError> {
        let (now, elapsed) = (self.now(), self.inner.clock.elapsed());
        self.lock().rename(route, to, actor, now, elapsed)
    }

    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError> {
        let (now, elapsed) = (self.now(), self.inner.clock.elapsed());
        self.lock().forget(route, actor, now, elapsed)
    }

    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError> {
        let now = self.now();
        let affected = self.lock().discard_dead(which, dry_run, actor, now);
        self.inner.wake.wake();
        Ok(affected)
    }

    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
        let now = self.now();
        let waiting = self.lock().unblock(route, key, actor, now)?;
        self.inner.wake.wake();
        Ok(waiting)
    }

    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
        let now = self.now();
        let head = self.lock().skip_head(route, key, actor, now)?;
        self.inner.wake.wake();
        Ok(head)
    }

    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
        let now = self.now();
        Ok(self.lock().forget_inbox(consumer, id, actor, now))
    }

    async fn note_payloads(&self, action: &'static str, subject: &str, actor: &Actor) -> Result<(), StoreError> {
        let now = self.now();
        self.lock().note(now, actor, action, subject, 0);
        Ok(())
    }

    async fn erase_payloads(
        &self,
        key: &str,
        undelivered: bool,
        dry_run: bool,
        actor: &Actor,
    ) -> Result<Erased, StoreError> {
        let now = self.now();
        self.lock().erase_payloads(key, undelivered, dry_run, actor, now)
    }
}

#[async_trait]
impl Replays for MemoryStore {
    async fn preview_replay(
        &self,
        what: ReplayKind,
        which: &Selection,
        inbox_window: Option<Duration>,
    ) -> Result<Affected, StoreError> {
        let now = self.now();
        self.lock().preview_replay(what, which, inbox_window, now)
    }

    async fn start_replay(&self, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
        let now = self.now();
        self.lock().start_replay(order, actor, now)
    }

    async fn step_replay(&self, id: &str, at_most: u64) -> Result<ReplayRow, StoreError> {
        let now = self.now();
        let row = self.lock().step_replay(id, at_most, now)?;
        self.inner.wake.wake();
        Ok(row)
    }

    async fn replays(&self, state: Option<ReplayState>, limit: usize) -> Result<Vec<ReplayRow>, StoreError> {
        Ok(self.lock().replays(state, limit))
    }

    async fn replay(&self, id: &str) -> Result<Option<ReplayRow>, StoreError> {
        Ok(self.lock().find_replay(id))
    }

    async fn change_replay(&self, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
        let now = self.now();
        self.lock().change_replay(id, change, actor, now)
    }
}

#[async_trait]
impl Access for MemoryStore {
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        Ok(self.lock().tokens.values().cloned().collect())
    }

    async fn add_token(&self, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
        let now = self.now();
        self.lock().add_token(token, actor, now)
    }

    async fn revoke_token(&self, name: &str, actor: &Actor) -> Result<(), StoreError> {
        let now = self.now();
        self.lock().revoke_token(name, actor, now)
    }

    async fn rotate_token(
        &self,
        name: &str,
        hash: &str,
        keep: Duration,
        actor: &Actor,
    ) -> Result<TokenRow, StoreError> {
        let now = self.now();
        self.lock().rotate_token(name, hash, keep, actor, now)
    }

    async fn token_used(&self, name: &str) -> Result<(), StoreError> {
        let now = self.now();
        self.lock().token_used(name, now);
        Ok(())
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
        Ok(self
            .lock()
            .actions
            .iter()
            .rev()
            .filter(|row| before.is_none_or(|before| row.number < before))
            .take(limit)
            .cloned()
            .collect())
    }
}

#[async_trait]
impl Verify for MemoryStore {
    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError> {
        Ok(self.lock().verify())
    }

    async fn throughput(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<ThroughputRow>, StoreError> {
        Ok(self.lock().minutes(route, from))
    }

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        let now = self.now();
        Ok(self.lock().prune(retention, dry_run, now))
    }
}

#[async_trait]
impl Retain for MemoryStore {
    async fn prune(&self, retention: &Retention) -> Result<Pruned, StoreError> {
        Verify::prune(self, retention, false).await
    }
}
