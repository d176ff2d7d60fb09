//! Deliveries that were taken and are not in flight: those that may be sent now, and those that wait behind one of
//! their key.
//!
//! Keeps order per key. Counts the bytes of all deliveries from their take to their settle, which bound how much is
//! taken.

use std::collections::VecDeque;

use foldhash::HashMap;

use postroom_core::{Budget, Delivery, LaneTerm};

use super::keys::{Keys, Outages, PendingDelivery};
use super::pace::Pace;
use super::ready::Ready;
use super::window::Line;

/// Most deliveries held behind earlier ones of their keys; beyond, no more is taken until some are done.
const FOLLOWERS_MAX: usize = 10_000;
/// Most deliveries on their way again that are held while they wait for each other.
const AGAIN_MAX: usize = 10_000;
/// Most events whose outages are remembered after they went back.
const RETURNED_MAX: usize = 10_000;
/// Bytes held in all, and rows while many are refused, as a multiple of what one take may bring.
const HELD_TAKES_MAX: usize = 8;

/// A route's deliveries that are not in flight.
#[derive(Debug)]
pub(super) struct Queue {
    ready: Ready,
    keys: Keys,
    bytes: usize,
    next_order: u64,
    // Of deliveries that went back in an outage, by event.
    returned: HashMap<String, Outages>,
    // Whose turn it is among what is ready.
    turn: usize,
    closed: bool,
}

impl Queue {
    /// Makes an empty queue. With `pipelines_key`, several deliveries of a key may be in flight at once, in order.
    pub(super) fn new(pipelines_key: bool) -> Self {
        Self {
            ready: Ready::new(pipelines_key),
            keys: Keys::default(),
            bytes: 0,
            next_order: 0,
            returned: HashMap::default(),
            turn: 0,
            closed: false,
        }
    }

    /// Whether nothing may be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// How many may be sent.
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    /// How many of those that may be sent were never tried.
    pub(super) fn fresh(&self) -> usize {
        self.ready.fresh()
    }

    /// Whether some wait behind others of their keys.
    pub(super) fn has_followers(&self) -> bool {
        self.keys.waiting() > 0
    }

    /// Those that may be sent, of a key the earliest first.
    pub(super) fn ready(&self) -> impl Iterator<Item = &PendingDelivery> {
        self.ready.values()
    }

    /// Whether what a take brings could be held. While the destination refuses many (`is_wary`), more is held: behind a
    /// cluster of bad events there may be good ones. Deliveries on their way again that wait for each other
    /// (`is_doubtful_full`) keep no fresh ones out.
    pub(super) fn has_room(&self, take: Budget, is_wary: bool, is_doubtful_full: bool) -> bool {
        let ahead = if is_wary && !self.ready.is_one_line() { HELD_TAKES_MAX } else { 1 };
        let crowded = self.ready.again() >= take.rows && !(self.ready.fresh() == 0 && is_doubtful_full);
        self.ready.fresh() < take.rows.saturating_mul(ahead)
            && !crowded
            && self.ready.again() < AGAIN_MAX
            && self.keys.waiting() < FOLLOWERS_MAX
            && self.bytes < take.bytes.saturating_mul(HELD_TAKES_MAX)
    }

    /// Takes in a delivery that a take brought. Returns it if something earlier of its key is on its way back into the
    /// store: it must go back too.
    pub(super) fn admit(&mut self, delivery: Delivery) -> Option<Delivery> {
        self.keys.brought(&delivery);
        if self.keys.is_held(&delivery) {
            return Some(delivery);
        }
        self.bytes += delivery.event.size();
        let outages = self.returned.remove(&delivery.event.id).unwrap_or_default();
        let held = PendingDelivery { delivery, order: self.next_order, outages, dead_letter: None };
        self.next_order += 1;
        let sendable = if self.ready.is_one_line() { Some(held) } else { self.keys.admit(held) };
        if let Some(held) = sendable {
            self.insert(held);
        }
        None
    }

    /// Makes a delivery ready that was in flight, before those that came after it. Returns it if something of its key
    /// is on its way back into the store: it must go back too.
    pub(super) fn send_again(&mut self, held: PendingDelivery) -> Option<PendingDelivery> {
        if self.keys.is_held(&held.delivery) {
            return Some(held);
        }
        self.insert(held);
        None
    }

    /// Removes what is sent.
    pub(super) fn remove(&mut self, order: u64) -> Option<PendingDelivery> {
        self.ready.remove(order)
    }

    /// Makes the next delivery of the key ready, because this one is done.
    pub(super) fn done(&mut self, delivery: &Delivery) {
        if !self.ready.is_one_line()
            && let Some(next) = self.keys.done(delivery)
        {
            self.insert(next);
        }
    }

    /// Removes what waits behind a delivery that failed and keeps its key.
    pub(super) fn take_followers(&mut self, failed: &PendingDelivery) -> VecDeque<PendingDelivery> {
        let mut behind = self.keys.fail(&failed.delivery);
        if self.ready.is_one_line()
            && let Some(key) = failed.delivery.order_key()
        {
            let later = self.ready.after(failed.order);
            let orders: Vec<u64> =
                later.filter(|held| held.delivery.order_key() == Some(key)).map(|held| held.order).collect();
            behind.extend(orders.iter().filter_map(|order| self.ready.remove(*order)));
        }
        for held in &behind {
            self.forget(&held.delivery);
        }
        behind
    }

    /// Removes what was taken under this ownership of a lane and not sent, in order.
    pub(super) fn take_lane(&mut self, lane: LaneTerm) -> Vec<PendingDelivery> {
        self.take_unsent(|held| held.delivery.lane == lane)
    }

    /// Removes all that was taken and not sent, in order. It comes again, and what it was on the wire in is remembered until then.
    pub(super) fn take_all(&mut self) -> Vec<PendingDelivery> {
        let unsent = self.take_unsent(|_| true);
        for held in unsent.iter().filter(|held| held.outages.count > 0) {
            if self.returned.len() >= RETURNED_MAX {
                self.returned.clear();
            }
            self.returned.insert(held.delivery.event.id.clone(), held.outages);
        }
        unsent
    }

    /// Whether nothing that was taken is not sent.
    pub(super) fn holds_nothing(&self) -> bool {
        self.is_empty() && !self.has_followers()
    }

    fn take_unsent(&mut self, is_wanted: impl Fn(&PendingDelivery) -> bool) -> Vec<PendingDelivery> {
        let mut unsent = self.keys.drain(&is_wanted);
        let orders: Vec<u64> = self.ready.values().filter(|held| is_wanted(held)).map(|held| held.order).collect();
        for order in orders {
            if let Some(held) = self.ready.remove(order) {
                self.done(&held.delivery);
                unsent.push(held);
            }
        }
        unsent.sort_unstable_by_key(|held| held.order);
        for held in &unsent {
            self.forget(&held.delivery);
        }
        unsent
    }

    /// Holds back what is later of a delivery's key until [`Queue::release`], because the delivery goes back into the
    /// store.
    pub(super) fn hold(&mut self, delivery: &Delivery) {
        self.keys.hold(delivery);
    }

    /// Ends a hold, because the delivery is in the store, or void; a take that is running may have looked before.
    pub(super) fn release(&mut self, delivery: &Delivery, running_take: Option<u64>) {
        self.keys.release(delivery, running_take);
    }

    /// Notes that the deliveries of this take were admitted.
    pub(super) fn taken(&mut self, take: u64) {
        self.keys.taken(take);
    }

    /// Stops counting the bytes of a delivery that is settled, goes back, or is another relay's.
    pub(super) fn forget(&mut self, delivery: &Delivery) {
        self.bytes = self.bytes.saturating_sub(delivery.event.size());
    }

    /// Drops what was not sent, and everything that would be ready from now on: unsettled, it is the next owner's.
    pub(super) fn close(&mut self) {
        self.ready.clear();
        self.closed = true;
    }

    /// Chooses what goes next. Fresh deliveries and those on their way again take turns; while many are refused, so do
    /// the old and the new end of the fresh ones.
    pub(super) fn next(&mut self, pace: &Pace, is_wary: bool, is_doubtful_full: bool) -> Option<(u64, Line)> {
        let (oldest, again) = (self.ready.oldest_fresh(), self.ready.oldest_again());
        if self.ready.is_one_line() {
            return oldest.map(|order| (order, Line::Plain));
        }
        let (turn, plain) = if is_wary {
            let turns = [again, oldest, None, None];
            (turns[self.turn % turns.len()], self.ready.newest_fresh(|kind| pace.is_doubtful(kind)))
        } else {
            ([again, None][self.turn % 2], oldest)
        };
        let doubtful = |order: Option<u64>| order.filter(|_| !is_doubtful_full).map(|order| (order, Line::Doubtful));
        doubtful(turn).or_else(|| plain.map(|order| (order, Line::Plain))).or_else(|| doubtful(again))
    }

    /// Ends the turn of what [`Queue::next`] chose, because it was sent.
    pub(super) fn end_turn(&mut self) {
        self.turn += 1;
    }

    /// Stops keeping what only a wary choice needs.
    pub(super) fn forget_ages(&mut self) {
        self.ready.forget_ages();
    }

    fn insert(&mut self, held: PendingDelivery) {
        if !self.closed {
            self.ready.insert(held);
        }
    }
}
