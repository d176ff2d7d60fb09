//! What commands ask of the store. Each part of the desk is a file of its own; this one is the list.

mod act;
mod counting;
mod look;
mod prune;
mod replay;
mod sums;
mod tokens;

use std::time::Duration;

use async_trait::async_trait;
use postroom_core::view::{
    ActionRow, Affected, AuditRow, BlockedKey, DeadGroup, DeliveryRow, EventRow, InboxPlace, InboxRow, KeyPlace,
    MinuteRow, Pruned, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, Timeline,
};
use postroom_core::{
    Actor, Desk, Event, NewToken, Outbox, Page, ReplayChange, ReplayOrder, Retention, RouteDefinition, Selection,
    StoreError, Timestamp, TokenRow,
};

use crate::Memory;
use crate::route::check_name;
pub(crate) use replay::Replay;

#[async_trait]
impl Desk for Memory {
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError> {
        let mut tx = self.begin();
        let appended = self.append_many(&mut tx, events).await?;
        tx.commit();
        appended.wake();
        Ok(appended.ids().to_vec())
    }

    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
        Ok(self.lock().events(which, page))
    }

    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError> {
        let now = self.now();
        Ok(self.lock().timeline(id, with_payload, now))
    }

    async fn register(&self, routes: &[RouteDefinition]) -> Result<Vec<String>, StoreError> {
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

    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError> {
        let (now, elapsed) = (self.now(), self.inner.clock.elapsed());
        Ok(self.lock().details(now, elapsed))
    }

    async fn minutes(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<MinuteRow>, StoreError> {
        Ok(self.lock().minutes(route, from))
    }

    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError> {
        let elapsed = self.inner.clock.elapsed();
        Ok(self.lock().relay_rows(elapsed))
    }

    async fn store(&self) -> Result<StoreRow, StoreError> {
        Ok(self.lock().store_row())
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

    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError> {
        let (now, elapsed) = (self.now(), self.inner.clock.elapsed());
        self.lock().forget(route, actor, now, elapsed)
    }

    async fn dead(&self, which: &Selection, after: i64, limit: usize) -> Result<Vec<DeliveryRow>, StoreError> {
        Ok(self.lock().dead_rows(which, after, limit))
    }

    async fn dead_groups(&self, which: &Selection, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
        Ok(self.lock().dead_groups(which, limit))
    }

    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError> {
        let now = self.now();
        let affected = self.lock().discard_dead(which, dry_run, actor, now);
        self.inner.wake.wake();
        Ok(affected)
    }

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

    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyPlace>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError> {
        Ok(self.lock().blocked_keys(route, after, limit))
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

    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxPlace>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError> {
        Ok(self.lock().inbox_rows(consumer, id, after, limit))
    }

    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
        let now = self.now();
        Ok(self.lock().forget_inbox(consumer, id, actor, now))
    }

    async fn audit(&self) -> Result<Vec<AuditRow>, StoreError> {
        Ok(self.lock().audit())
    }

    async fn actions(&self, before: Option<i64>, limit: usize) -> Result<Vec<ActionRow>, StoreError> {
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

    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
        let now = self.now();
        Ok(self.lock().prune(retention, dry_run, now))
    }
}
