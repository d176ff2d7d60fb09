//! What a take hands out of one lane, in this order: unsettled ones of a former owner, rows that are due, fresh ones, and what is due besides.
//!
//! Reads within a budget and moves the position. Which lanes are read is [`crate::source`].

use std::sync::Arc;

use jiff::Timestamp;
use postroom_core::{Budget, Delivery, DeliveryState, Event, LaneTerm, RouteSpec};

use crate::delivery::Parked;
use crate::lane::Lane;
use crate::log::Log;
use crate::route::Route;

/// Fills the relay's batch within its budget.
pub(crate) struct BatchBuilder<'a> {
    pub(crate) log: &'a Log,
    pub(crate) handles: &'a mut i64,
    pub(crate) now: Timestamp,
    pub(crate) budget: Budget,
    pub(crate) bytes: usize,
    /// Something was left behind for want of room.
    pub(crate) full: bool,
    pub(crate) deliveries: Vec<Delivery>,
}

impl BatchBuilder<'_> {
    /// Whether one of this size still fits; the first always does.
    fn fits(&mut self, size: usize) -> bool {
        let fits = self.deliveries.len() < self.budget.rows
            && (self.deliveries.is_empty() || self.bytes.saturating_add(size) <= self.budget.bytes);
        self.full |= !fits;
        fits
    }

    fn add(&mut self, lane: &mut Lane, number: i64, size: usize, mut delivery: Delivery) {
        *self.handles += 1;
        delivery.handle = *self.handles;
        lane.handed.insert(delivery.handle, number);
        self.bytes += size;
        self.deliveries.push(delivery);
    }

    /// Rows whose time has come, `share` at most; not before those of [`BatchBuilder::again`], which may be earlier ones of the same keys.
    pub(crate) fn due(&mut self, lane: &mut Lane, term: LaneTerm, share: &mut usize) {
        if !lane.again.is_empty() {
            return;
        }
        while *share > 0
            && let Some((due_at, number)) = lane.due.first().copied().filter(|(due_at, _)| *due_at <= self.now)
        {
            let Some(row) = lane.rows.get_mut(&number) else { return };
            let size = row.event.size();
            if !self.fits(size) {
                return;
            }
            row.handed = true;
            let delivery = Delivery {
                handle: 0,
                lane: term,
                event: Arc::clone(&row.event),
                position: Some(number),
                attempts: row.attempts,
                ordered: row.blocks,
                appended_at: row.appended_at,
                refused: None,
            };
            lane.due.remove(&(due_at, number));
            self.add(lane, number, size, delivery);
            *share -= 1;
        }
    }

    /// Unsettled ones that are in nobody's hands.
    pub(crate) fn again(&mut self, lane: &mut Lane, term: LaneTerm) {
        while let Some(number) = lane.again.first().copied() {
            let Some(row) = self.log.get(number) else { return };
            if lane.is_blocked(&row.event, number) {
                lane.again.remove(&number);
                lane.unsettled.remove(number);
                let parked = Parked::new(Arc::clone(&row.event), row.appended_at, DeliveryState::Blocked, self.now);
                lane.park(number, parked);
                continue;
            }
            let size = row.event.size();
            if !self.fits(size) {
                return;
            }
            lane.again.remove(&number);
            self.add(lane, number, size, fresh_delivery(term, number, &row.event, row.appended_at));
        }
    }

    /// Rows after the position.
    pub(crate) fn fresh(&mut self, lane: &mut Lane, term: LaneTerm, route: &RouteSpec, looks: &mut usize) {
        // What is unsettled comes first, also when it did not fit: a later event of its key must not pass it.
        if !lane.again.is_empty() {
            return;
        }
        let log = self.log;
        for number in log.after(term.lane as usize, lane.hwm) {
            let Some(row) = log.get(number) else { return };
            if *looks == 0 {
                self.full = true;
                return;
            }
            *looks -= 1;
            if !Route::wants(route, row) {
                lane.counts.filtered += 1;
            } else if let Some(at) = row.event.available_at.filter(|at| *at > self.now) {
                let mut parked = Parked::new(Arc::clone(&row.event), row.appended_at, DeliveryState::Delayed, self.now);
                parked.due_at = at;
                lane.park(number, parked);
            } else if lane.is_blocked(&row.event, number) {
                let parked = Parked::new(Arc::clone(&row.event), row.appended_at, DeliveryState::Blocked, self.now);
                lane.park(number, parked);
            } else {
                let size = row.event.size();
                if !self.fits(size) {
                    return;
                }
                lane.unsettled.insert(number);
                self.add(lane, number, size, fresh_delivery(term, number, &row.event, row.appended_at));
            }
            lane.hwm = number;
            lane.counts.seen += 1;
        }
    }
}

fn fresh_delivery(lane: LaneTerm, number: i64, event: &Arc<Event>, appended_at: Timestamp) -> Delivery {
    Delivery {
        handle: 0,
        lane,
        event: Arc::clone(event),
        position: Some(number),
        attempts: 0,
        ordered: true,
        appended_at,
        refused: None,
    }
}
