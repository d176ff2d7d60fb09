//! Looks at events: lists, one event's timeline, acceptances, dead letters and blocked keys.

use std::cmp::Reverse;

use jiff::Timestamp;
use postroom_admin::view::{
    BlockedKey, DeliveryRow, EventRow, InboxCursor, InboxRow, KeyCursor, RouteTimeline, Timeline,
};
use postroom_admin::{Page, Selection};
use postroom_core::DeliveryState;
use serde_json::Value;

use crate::delivery::Parked;
use crate::inbox::Accepted;
use crate::lane::Lane;
use crate::log::Row;
use crate::route::Route;
use crate::state::State;

impl State {
    pub(super) fn events(&self, which: &Selection, page: Page) -> Vec<EventRow> {
        let fits = |(_, row): &(i64, &Row)| which.fits(&row.event);
        let show = |(number, row)| self.event_row(number, row);
        match page {
            Page::Newest { before, above, limit } => {
                let rows = self.log.iter().rev().filter(|(n, _)| before.is_none_or(|before| *n < before) && *n > above);
                rows.filter(fits).take(limit).map(show).collect()
            }
            Page::Oldest { after, limit } => {
                self.log.iter().filter(|(n, _)| *n > after).filter(fits).take(limit).map(show).collect()
            }
        }
    }

    fn event_row(&self, position: i64, row: &Row) -> EventRow {
        let event = &row.event;
        EventRow {
            store: self.name.clone(),
            position,
            id: event.id.clone(),
            event_type: event.event_type.clone(),
            key: event.ordering_key().map(str::to_owned),
            aggregate_type: event.aggregate_type.clone(),
            aggregate_id: event.aggregate_id.clone(),
            tenant: event.tenant.clone(),
            occurred_at: event.occurred_at,
            available_at: event.available_at,
            appended_at: row.appended_at,
            payload_bytes: event.payload.len() as u64,
        }
    }

    /// Everything known of the newest event of this id.
    pub(super) fn timeline(&self, id: &str, with_payload: bool, now: Timestamp) -> Option<Timeline> {
        let mut found = self.log.iter().rev().filter(|(_, row)| row.event.id == id);
        let (number, row) = found.next()?;
        let mut same_id_at: Vec<i64> = found.map(|(number, _)| number).collect();
        same_id_at.reverse();
        let event = &row.event;
        let payload = || match event.payload_json().and_then(|raw| serde_json::from_str(raw.get()).ok()) {
            Some(json) => json,
            None => Value::String(String::from_utf8_lossy(&event.payload).into_owned()),
        };
        Some(Timeline {
            event: self.event_row(number, row),
            lane: row.lane,
            content_type: event.content_type.clone(),
            correlation_id: event.correlation().to_owned(),
            causation_id: event.causation_id.clone(),
            schema_version: event.schema_version,
            headers: event.headers.clone(),
            attributes: event.attributes.clone(),
            payload: with_payload.then(payload),
            routes: self.routes.values().map(|route| route_timeline(route, number, row, now)).collect(),
            inbox: self.inbox_rows(None, Some(id), None, usize::MAX),
            same_id_at,
        })
    }

    /// Acceptances after that one, the greatest ids first.
    pub(super) fn inbox_rows(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxCursor>,
        limit: usize,
    ) -> Vec<InboxRow> {
        let is_after = |one: &Accepted| {
            after.is_none_or(|after| (Reverse(&one.id), &one.consumer) > (Reverse(&after.id), &after.consumer))
        };
        let mut rows: Vec<InboxRow> = self
            .inbox
            .iter()
            .filter(|(accepted, _)| consumer.is_none_or(|c| accepted.consumer == c))
            .filter(|(accepted, _)| id.is_none_or(|id| accepted.id == id) && is_after(accepted))
            .map(|(accepted, at)| InboxRow {
                store: self.name.clone(),
                consumer: accepted.consumer.clone(),
                id: accepted.id.clone(),
                accepted_at: *at,
            })
            .collect();
        rows.sort_by(|one, other| (&other.id, &one.consumer).cmp(&(&one.id, &other.consumer)));
        rows.truncate(limit);
        rows
    }

    /// Deliveries of all routes, oldest first. All of the last position come, so that a next page misses none.
    pub(super) fn delivery_rows(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        after: i64,
        limit: usize,
        now: Timestamp,
    ) -> Vec<DeliveryRow> {
        let mut rows: Vec<DeliveryRow> = self.parked_rows(states, which).filter(|row| row.position > after).collect();
        // What is not read yet has not failed.
        if which.code.is_none() && states.iter().any(|state| *state != DeliveryState::Dead) {
            rows.extend(self.unread(which, after, now).filter(|row| states.contains(&row.state)));
        }
        rows.sort_by(|a, b| (a.position, &a.route).cmp(&(b.position, &b.route)));
        let last = limit.checked_sub(1).and_then(|last| rows.get(last)).map(|row| row.position);
        let end = last.map_or(limit.min(rows.len()), |last| rows.partition_point(|row| row.position <= last));
        rows.truncate(end);
        rows
    }

    /// Events that routes have not read yet, or are sending for the first time.
    fn unread<'s>(
        &'s self,
        which: &'s Selection,
        after: i64,
        now: Timestamp,
    ) -> impl Iterator<Item = DeliveryRow> + 's {
        let routes = self.routes.iter().filter(|(name, _)| which.route.as_ref().is_none_or(|route| route == *name));
        let events = move |(name, route): (&'s String, &'s Route)| {
            let fits = self.log.iter().filter(move |(number, row)| *number > after && which.fits(&row.event));
            fits.filter_map(move |(number, row)| {
                if route.lanes[row.lane as usize].rows.contains_key(&number) {
                    return None;
                }
                let timeline = route_timeline(route, number, row, now);
                let event = self.event_row(number, row);
                Some(DeliveryRow {
                    store: self.name.clone(),
                    route: name.clone(),
                    position: number,
                    id: event.id,
                    event_type: event.event_type,
                    key: event.key,
                    tenant: event.tenant,
                    state: DeliveryState::parse(timeline.state)?,
                    attempts: 0,
                    code: None,
                    error: None,
                    due_at: timeline.due_at,
                    appended_at: event.appended_at,
                    since: event.appended_at,
                })
            })
        };
        routes.flat_map(events)
    }

    /// Deliveries that have a row of their own.
    pub(super) fn parked_rows<'s>(
        &'s self,
        states: &'s [DeliveryState],
        which: &'s Selection,
    ) -> impl Iterator<Item = DeliveryRow> + 's {
        self.parked(states, which).map(|(route, _, number, row)| delivery_row(&self.name, route, number, row))
    }

    /// Where the dead letters of a selection are: route, lane, number; in order within each lane.
    pub(super) fn dead_letters<'s>(&'s self, which: &'s Selection) -> impl Iterator<Item = (&'s str, usize, i64)> + 's {
        self.parked(&[DeliveryState::Dead], which).map(|(route, lane, number, _)| (route, lane, number))
    }

    /// The rows of deliveries in some states: route, lane, number, row; in order within each lane.
    fn parked<'s>(
        &'s self,
        states: &'s [DeliveryState],
        which: &'s Selection,
    ) -> impl Iterator<Item = (&'s str, usize, i64, &'s Parked)> + 's {
        let routes = self.routes.iter().filter(|(name, _)| which.route.as_ref().is_none_or(|route| route == *name));
        let lanes =
            routes.flat_map(|(name, route)| route.lanes.iter().enumerate().map(move |(n, lane)| (name, n, lane)));
        lanes.flat_map(move |(name, n, lane)| {
            let rows = lane.rows.iter().filter(|(_, row)| {
                states.contains(&row.state)
                    && which.fits(&row.event)
                    && which.code.as_ref().is_none_or(|code| row.code.as_ref() == Some(code))
            });
            rows.map(move |(number, row)| (name.as_str(), n, *number, row))
        })
    }

    /// Keys with events waiting, in the order of the events they wait behind.
    pub(super) fn blocked_keys(&self, only: Option<&str>, after: Option<&KeyCursor>, limit: usize) -> Vec<BlockedKey> {
        let mut keys: Vec<BlockedKey> = Vec::new();
        for (name, route) in self.routes.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
            for lane in &route.lanes {
                keys.extend(lane.waiting_keys().map(|(key, position, head, waiting)| BlockedKey {
                    store: self.name.clone(),
                    route: name.clone(),
                    key: key.to_owned(),
                    head_id: head.event.id.clone(),
                    head_position: position,
                    head_state: head.state,
                    attempts: head.attempts,
                    code: head.code.clone(),
                    error: head.error.clone(),
                    due_at: head.has_due_time().then_some(head.due_at),
                    waiting,
                    since: head.since,
                }));
            }
        }
        keys.retain(|key| after.is_none_or(|after| key.cursor() > *after));
        keys.sort_by_key(BlockedKey::cursor);
        keys.truncate(limit);
        keys
    }
}

impl Lane {
    /// Keys with blocked rows: the key, its first blocking row, and how many are blocked.
    pub(super) fn waiting_keys(&self) -> impl Iterator<Item = (&str, i64, &Parked, u64)> {
        self.keys.iter().filter_map(|(key, numbers)| {
            let waiting = numbers.iter().filter(|n| self.rows[n].state == DeliveryState::Blocked).count() as u64;
            let head = numbers.first()?;
            (waiting > 0).then(|| (key.as_str(), *head, &self.rows[head], waiting))
        })
    }
}

fn delivery_row(store: &str, route: &str, position: i64, row: &Parked) -> DeliveryRow {
    DeliveryRow {
        store: store.to_owned(),
        route: route.to_owned(),
        position,
        id: row.event.id.clone(),
        event_type: row.event.event_type.clone(),
        key: row.event.ordering_key().map(str::to_owned),
        tenant: row.event.tenant.clone(),
        state: row.state,
        attempts: row.attempts,
        code: row.code.clone(),
        error: row.error.clone(),
        due_at: row.has_due_time().then_some(row.due_at),
        appended_at: row.appended_at,
        since: row.since,
    }
}

/// What became of one event on one route.
fn route_timeline(route: &Route, number: i64, row: &Row, now: Timestamp) -> RouteTimeline {
    let lane = &route.lanes[row.lane as usize];
    let parked = lane.rows.get(&number);
    let ahead = |number: i64| {
        let blocking = row.event.ordering_key().and_then(|key| lane.keys.get(key));
        blocking.and_then(|numbers| numbers.first()).filter(|first| **first < number).map(|n| &lane.rows[n])
    };
    let fresh = || -> &'static str {
        if !Route::wants(&route.definition, row) {
            "filtered"
        } else if row.event.available_at.is_some_and(|at| at > now) {
            "delayed"
        } else if ahead(number).is_some() {
            "blocked"
        } else {
            "due"
        }
    };
    let state = match parked {
        Some(parked) => parked.state.as_str(),
        None if number <= lane.start || Route::is_before(&route.definition, row) => "before_start",
        None if number > lane.hwm => fresh(),
        None if lane.unsettled.contains(number) => "due",
        None if lane.discarded.contains(&number) => "discarded",
        None if lane.arrivals.contains_key(&number) || Route::wants(&route.definition, row) => "delivered",
        None => "filtered",
    };
    let arrivals = lane.arrivals.get(&number).cloned().unwrap_or_default();
    let last = arrivals.last().filter(|last| !last.discarded);
    let due_at = match parked {
        Some(parked) => parked.has_due_time().then_some(parked.due_at),
        None if state == "delayed" => row.event.available_at,
        None => None,
    };
    RouteTimeline {
        route: route.definition.name.clone(),
        state,
        delivered_at: last.map(|last| last.at),
        receipt: last.and_then(|last| last.receipt.clone()),
        due_at,
        blocked_by: (state == "blocked").then(|| ahead(number).map(|head| head.event.id.clone())).flatten(),
        replay: parked.and_then(|parked| parked.replayed_by.clone()),
        attempts: lane.attempts.get(&number).cloned().unwrap_or_default(),
        arrivals,
    }
}
