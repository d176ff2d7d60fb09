//! An operator's acts on routes and keys: pause, resume, forget, unblock, skip the head.

use std::time::Duration;

use jiff::Timestamp;
use postroom_admin::routes;
use postroom_core::{Actor, DeliveryState, Pause, StoreError, StoreErrorKind};

use super::Replay;
use crate::relay::live;
use crate::state::{State, no_route};

impl State {
    pub(crate) fn pause(&mut self, name: &str, actor: &Actor, now: Timestamp) -> Result<bool, StoreError> {
        let route = self.route_mut(name, "pause")?;
        if route.pause.is_some() {
            return Ok(false);
        }
        route.pause = Some(Pause { by: actor.name.clone(), at: now, reason: actor.reason.clone() });
        self.note(now, actor, "route.pause", name, 0);
        Ok(true)
    }

    pub(super) fn resume(&mut self, name: &str, actor: &Actor, now: Timestamp) -> Result<bool, StoreError> {
        if self.route_mut(name, "resume")?.pause.take().is_none() {
            return Ok(false);
        }
        self.note(now, actor, "route.resume", name, 0);
        Ok(true)
    }

    pub(super) fn probe(&mut self, name: &str, actor: &Actor, now: Timestamp) -> Result<bool, StoreError> {
        let route = self.route_mut(name, "probe")?;
        if route.pause.is_some() {
            return Ok(false);
        }
        route.probe_at = Some(now);
        self.note(now, actor, "route.probe", name, 0);
        Ok(true)
    }

    /// Fails if the route is not registered, or if a live relay serves it.
    fn need_unserved(&mut self, name: &str, elapsed: Duration, operation: &'static str) -> Result<(), StoreError> {
        self.route_mut(name, operation)?;
        let served = live(&self.relays, name, elapsed);
        let Some(relay) = served.first().and_then(|boot| self.relays.get(*boot)) else { return Ok(()) };
        let message = format!("route {name} is served by relay {}", relay.identity.name);
        Err(StoreError::new(StoreErrorKind::Conflict, operation, message)
            .hint("remove it from the configuration of every relay first"))
    }

    pub(super) fn rename(
        &mut self,
        name: &str,
        to: &str,
        actor: &Actor,
        now: Timestamp,
        elapsed: Duration,
    ) -> Result<(), StoreError> {
        routes::check_new_name(to)?;
        self.need_unserved(name, elapsed, "rename")?;
        if self.routes.contains_key(to) {
            return Err(routes::name_is_taken(name, to));
        }
        if let Some(replay) = self.replays.iter().find_map(Replay::unfinished) {
            return Err(routes::replay_is_unfinished(name, replay));
        }
        if let Some(mut route) = self.routes.remove(name) {
            to.clone_into(&mut route.definition.name);
            self.routes.insert(to.to_owned(), route);
        }
        for relay in self.relays.values_mut() {
            relay.serves.remove(name);
        }
        self.note(now, actor, "route.rename", &format!("{name} to {to}"), 1);
        Ok(())
    }

    pub(super) fn forget(
        &mut self,
        name: &str,
        actor: &Actor,
        now: Timestamp,
        elapsed: Duration,
    ) -> Result<(), StoreError> {
        self.need_unserved(name, elapsed, "forget")?;
        let lost = self.undelivered(name);
        self.routes.remove(name);
        for relay in self.relays.values_mut() {
            relay.serves.remove(name);
        }
        self.note(now, actor, "route.forget", name, lost);
        Ok(())
    }

    pub(super) fn unblock(&mut self, name: &str, key: &str, actor: &Actor, now: Timestamp) -> Result<u64, StoreError> {
        let (lane, head) = self.head(name, key, "unblock")?;
        let lane = &mut self.route_mut(name, "unblock")?.lanes[lane];
        let waiting = lane.waiting_keys().find(|(k, ..)| *k == key).map_or(0, |(.., waiting)| waiting);
        lane.change(head, |row| {
            row.ordered = false;
            row.blocks = false;
        });
        lane.release(key, now);
        self.note(now, actor, "key.unblock", &format!("{name} {key}"), waiting);
        Ok(waiting)
    }

    pub(super) fn skip_head(
        &mut self,
        name: &str,
        key: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let (lane, head) = self.head(name, key, "skip the head")?;
        let lane = &mut self.route_mut(name, "skip the head")?.lanes[lane];
        // The one that failed may have got through just now; whoever stands next is not to blame.
        if let Some(row) = lane.rows.get(&head)
            && row.state == DeliveryState::Due
            && row.code.is_none()
        {
            let id = &row.event.id;
            let message =
                format!("key {key} of route {name} is not blocked any more: its next event {id} has not failed");
            return Err(StoreError::new(StoreErrorKind::NotFound, "skip the head", message)
                .hint("`postroom key ls --blocked` shows the blocked keys"));
        }
        let mut id = String::new();
        lane.change(head, |row| {
            id.clone_from(&row.event.id);
            row.ordered = false;
            row.blocks = false;
            if row.state != DeliveryState::Dead {
                row.enter(DeliveryState::Dead, now);
                row.code.get_or_insert_with(|| "operator.skipped".to_owned());
                row.error.get_or_insert_with(|| format!("skipped by {}", actor.name));
            }
        });
        lane.release(key, now);
        self.note(now, actor, "key.skip_head", &format!("{name} {key}"), 1);
        Ok(id)
    }

    /// The lane of a blocked key, and the number of its head.
    fn head(&self, name: &str, key: &str, operation: &'static str) -> Result<(usize, i64), StoreError> {
        let route = self.routes.get(name).ok_or_else(|| no_route(name, operation))?;
        let head = |(n, lane): (usize, &crate::lane::Lane)| Some((n, *lane.keys.get(key)?.first()?));
        route.lanes.iter().enumerate().find_map(head).ok_or_else(|| {
            let message = format!("key {key} of route {name} is not blocked");
            StoreError::new(StoreErrorKind::NotFound, operation, message)
                .hint("`postroom key ls --blocked` shows the blocked keys")
        })
    }

    pub(super) fn note(&mut self, now: Timestamp, actor: &Actor, action: &str, subject: &str, count: u64) {
        self.record(now, &actor.name, action, subject, count, actor.reason.as_deref());
    }
}
