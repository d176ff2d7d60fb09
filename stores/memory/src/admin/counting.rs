//! Counts: how routes, relays and the store are doing, and the verification that proves nothing was lost.

use std::time::Duration;

use jiff::Timestamp;
use postroom_admin::view::{LaneRow, RelayRow, RouteDetail, RouteStatus, StoreRow, VerifyRow};
use postroom_core::{RouteHealth, RouteState};

use crate::lane::Lane;
use crate::log::Log;
use crate::route::Route;
use crate::state::State;

/// Up to here `due` is exact.
const DUE_EXACT_MAX: u64 = 10_000;
/// How many of the newest events are looked at for `unmatched`.
const UNMATCHED_LOOKS: usize = 10_000;

impl State {
    pub(super) fn details(&self, now: Timestamp, elapsed: Duration) -> Vec<RouteDetail> {
        self.routes.values().map(|route| self.detail(route, now, elapsed)).collect()
    }

    fn detail(&self, route: &Route, now: Timestamp, elapsed: Duration) -> RouteDetail {
        let definition = &route.definition;
        let words = |patterns: &[postroom_core::Pattern]| patterns.iter().map(ToString::to_string).collect();
        let holder = |boot: &String| self.relays.get(boot).map_or_else(|| boot.clone(), |r| r.identity.name.clone());
        let lanes = (0..).zip(&route.lanes).map(|(number, lane)| LaneRow {
            lane: number,
            holder: lane.holder.as_ref().map(holder),
            term: lane.term,
            hwm: lane.hwm,
            unsettled: lane.unsettled.len(),
            counts: lane.counts,
        });
        RouteDetail {
            status: self.status(route, now, elapsed),
            types: words(&definition.filter.types),
            aggregate_type: words(&definition.filter.aggregate_type),
            tenant: words(&definition.filter.tenant),
            start: definition.start.to_string(),
            on_failure: definition.on_failure,
            on_dead: definition.on_dead,
            registered_at: route.registered_at,
            paused_by: route.pause.as_ref().map(|pause| pause.by.clone()),
            paused_at: route.pause.as_ref().map(|pause| pause.at),
            pause_reason: route.pause.as_ref().and_then(|pause| pause.reason.clone()),
            lanes: lanes.collect(),
        }
    }

    /// Reports whether nothing of the route is due or retrying in any of its lanes.
    pub(crate) fn is_drained(&self, name: &str, now: Timestamp) -> bool {
        let is_drained = |route: &Route| {
            route.lanes.iter().all(|lane| lane.retrying == 0) && Due::of(route, &self.log, now).count == 0
        };
        self.routes.get(name).is_none_or(is_drained)
    }

    /// Counts what a route has not delivered: its rows, what it is sending, and what it has yet to read.
    pub(super) fn undelivered(&self, name: &str) -> u64 {
        let Some(route) = self.routes.get(name) else { return 0 };
        let wants = |n: &i64| self.log.get(*n).is_some_and(|row| Route::wants(&route.definition, row));
        let of = |(number, lane): (usize, &Lane)| {
            lane.rows.len() as u64
                + lane.unsettled.len()
                + self.log.after(number, lane.hwm).filter(wants).count() as u64
        };
        route.lanes.iter().enumerate().map(of).sum()
    }

    fn status(&self, route: &Route, now: Timestamp, elapsed: Duration) -> RouteStatus {
        let due = Due::of(route, &self.log, now);
        let health = self.health(route, elapsed);
        let sum = |count: fn(&Lane) -> u64| route.lanes.iter().map(count).sum();
        RouteStatus {
            store: self.name.clone(),
            route: route.definition.name.clone(),
            to: route.definition.to.clone(),
            state: health.state,
            since: health.since,
            next_try: health.next_try,
            due: Some(due.count),
            due_estimated: due.estimated,
            oldest_due_seconds: Some(
                due.oldest.map_or(0.0, |oldest| now.duration_since(oldest).as_secs_f64().max(0.0)),
            ),
            rate: health.rate,
            rate_1m: route.pace.per_second(elapsed),
            delivered: sum(|lane| lane.counts.delivered + lane.counts.recovered + lane.counts.replayed),
            retrying: sum(|lane| lane.retrying),
            blocked_keys: sum(|lane| lane.waiting_keys().count() as u64),
            dead: sum(|lane| {
                lane.rows.values().filter(|row| row.state == postroom_core::DeliveryState::Dead).count() as u64
            }),
            message: health.message,
            consumers: health.consumers,
        }
    }

    /// The operator's word first, then what the live relays say; the first that is not running counts. Their rates add up, and the lag of
    /// consumers is that of the relay which reads it.
    fn health(&self, route: &Route, elapsed: Duration) -> RouteHealth {
        let name = &route.definition.name;
        let live = self.relays.values().filter(|relay| relay.is_alive(elapsed));
        let mut said: Vec<&RouteHealth> = live.filter_map(|r| r.serves.get(name)).map(|s| &s.health).collect();
        said.sort_by_key(|health| health.state == RouteState::Running);
        let rate = said.iter().fold(0.0, |sum, health| sum + health.rate);
        let consumers = said.iter().find_map(|health| health.consumers.clone());
        let health = match (&route.pause, said.first()) {
            (Some(pause), _) => pause.health(),
            (None, Some(health)) => (*health).clone(),
            (None, None) => RouteHealth::new(RouteState::Orphan, "no live relay serves it"),
        };
        RouteHealth { rate, consumers, ..health }
    }

    pub(super) fn relay_rows(&self, elapsed: Duration) -> Vec<RelayRow> {
        let lanes = |boot: &str| {
            let held = self.routes.values().flat_map(|route| &route.lanes);
            held.filter(|lane| lane.holder.as_deref() == Some(boot)).count() as u64
        };
        self.relays
            .values()
            .map(|relay| RelayRow {
                store: self.name.clone(),
                relay: relay.identity.name.clone(),
                boot: relay.identity.boot.clone(),
                version: relay.identity.version.clone(),
                alive: relay.is_alive(elapsed),
                started_at: relay.started_at,
                seen_at: relay.seen_at,
                lanes: lanes(&relay.identity.boot),
                routes: relay.serves.keys().cloned().collect(),
            })
            .collect()
    }

    pub(super) fn store_row(&self) -> StoreRow {
        let newest = self.log.iter().rev().take(UNMATCHED_LOOKS);
        let unmatched =
            newest.filter(|(_, row)| !self.routes.values().any(|r| r.definition.filter.matches(&row.event))).count();
        StoreRow {
            store: self.name.clone(),
            kind: "memory",
            reachable: true,
            schema_version: Some(0),
            events: Some(self.log.len()),
            events_estimated: false,
            bytes: None,
            unmatched: Some(unmatched as u64),
            message: "everything is gone when the process ends".to_owned(),
        }
    }

    pub(super) fn verify(&self) -> Vec<VerifyRow> {
        let mut rows = Vec::new();
        for (name, route) in &self.routes {
            for (number, lane) in (0..).zip(&route.lanes) {
                let counted = self.log.counted(number as usize, lane.hwm);
                let unsettled = lane.unsettled.len();
                let open = lane.rows.values().filter(|row| !row.replay).count() as u64;
                rows.push(VerifyRow {
                    store: self.name.clone(),
                    route: name.clone(),
                    lane: number,
                    rows: counted,
                    unsettled,
                    open,
                    counts: lane.counts,
                    differences: VerifyRow::compare(&lane.counts, counted, unsettled, open),
                });
            }
        }
        rows
    }
}

/// Counts what should have been tried by now, in anybody's hands or not.
struct Due {
    now: Timestamp,
    count: u64,
    estimated: bool,
    oldest: Option<Timestamp>,
}

impl Due {
    fn of(route: &Route, log: &Log, now: Timestamp) -> Self {
        let mut due = Self { now, count: 0, estimated: false, oldest: None };
        for (number, lane) in route.lanes.iter().enumerate() {
            due.look(route, lane, number, log);
        }
        due
    }

    fn add(&mut self, since: Timestamp) {
        self.count += 1;
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
    }

    fn look(&mut self, route: &Route, lane: &Lane, number: usize, log: &Log) {
        let now = self.now;
        for row in lane.rows.values().filter(|row| row.has_due_time() && row.due_at <= now) {
            self.add(row.due_at);
        }
        for row in lane.unsettled.numbers().filter_map(|n| log.get(n)) {
            self.add(row.event.available_at.map_or(row.appended_at, |at| at.max(row.appended_at)));
        }
        let mut fresh = log.after(number, lane.hwm);
        while let Some(n) = fresh.next() {
            let Some(row) = log.get(n) else { continue };
            let since = row.event.available_at.map_or(row.appended_at, |at| at.max(row.appended_at));
            if since > now || !Route::wants(&route.definition, row) || lane.is_blocked(&row.event, n) {
                continue;
            }
            self.add(since);
            if self.count >= DUE_EXACT_MAX {
                let rest = fresh.count() as u64;
                self.estimated |= rest > 0;
                self.count += rest;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use postroom_admin::Verify as _;
    use postroom_core::{Event, RelayIdentity, RouteSpec, StartFrom, Store};

    use crate::MemoryStore;

    #[tokio::test]
    async fn verification_finds_an_event_that_was_lost() {
        let store = MemoryStore::new();
        postroom_admin::Operate::append(&store, &[Event::new("a"), Event::new("b")]).await.unwrap();
        let relay = RelayIdentity {
            name: "r".into(),
            boot: "b".into(),
            version: "0".into(),
            lease: std::time::Duration::MAX / 4,
        };
        let route = RouteSpec { start: StartFrom::Beginning, ..RouteSpec::new("all") };
        let source = store.source(&relay, &route).await.unwrap();
        let taken = source.take(postroom_core::Budget { rows: 10, bytes: 1 << 20 }).await.unwrap().deliveries;
        let lost = &taken[0];
        if let Some(route) = store.lock().routes.get_mut("all") {
            route.lanes[lost.lane.lane as usize].unsettled.remove(lost.position.unwrap());
        }
        let rows = store.verify().await.unwrap();
        let wrong: Vec<u32> = rows.iter().filter(|row| !row.differences.is_empty()).map(|row| row.lane).collect();
        assert_eq!(wrong, [lost.lane.lane]);
    }
}
