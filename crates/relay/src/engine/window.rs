//! What is in flight: deliveries in the transport's hands, and the slots they hold.
//!
//! A delivery takes a slot when it is sent. The slot comes back when a committed settle covers the outcome, so that the
//! slots of a relay bound what one crash repeats.

use std::time::Duration;

use foldhash::HashMap;
use postroom_core::{LaneTerm, Outbound, Outcome};
use tokio::sync::mpsc::UnboundedSender;

use super::keys::PendingDelivery;
use crate::slots::Share;

/// Deliveries that may well fail get so much of what may be in flight while others wait, or while they do fail.
const DOUBTFUL_SHARE: usize = 4;

/// A delivery in the transport's hands.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) held: PendingDelivery,
    pub(super) since: Duration,
    /// How often the breaker had opened when it was sent.
    pub(super) epoch: u64,
    pub(super) line: Line,
}

/// The reason why a delivery is sent now; bounds how many of its like are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing bad is known of it.
    Plain,
    /// It may well fail: on its way again, or from the old end while many are refused.
    Doubtful,
    /// It finds out whether a destination that refuses everything still does.
    Slow,
}

/// A route's part of what the relay may have in flight.
#[derive(Debug)]
pub(super) struct Window {
    share: Share,
    // Most deliveries that the transport wants at once.
    transport_max: usize,
    report: UnboundedSender<(u64, Outcome)>,
    flights: HashMap<u64, Flight>,
    next_ticket: u64,
    // How many of `flights` were sent as doubtful, and as slow ones.
    doubtful_flights: usize,
    slow_flights: usize,
    // Another route found no slot; ours may be the ones that wait for a settle.
    slot_wanted: bool,
    // This route found none.
    out_of_slots: bool,
}

impl Window {
    pub(super) fn new(share: Share, transport_max: Option<usize>, report: UnboundedSender<(u64, Outcome)>) -> Self {
        Self {
            share,
            transport_max: transport_max.unwrap_or(usize::MAX),
            report,
            flights: HashMap::default(),
            next_ticket: 0,
            doubtful_flights: 0,
            slow_flights: 0,
            slot_wanted: false,
            out_of_slots: false,
        }
    }

    /// How many deliveries are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Whether deliveries of this lane are in flight.
    pub(super) fn holds(&self, lane: LaneTerm) -> bool {
        self.flights.values().any(|flight| flight.held.delivery.lane == lane)
    }

    /// How many more the transport wants.
    pub(super) fn room(&self) -> usize {
        self.transport_max.saturating_sub(self.flights.len())
    }

    /// How many deliveries of this route could be in flight.
    pub(super) fn in_flight_max(&self) -> usize {
        self.transport_max.min(self.share.reachable())
    }

    /// How many are in flight to find out whether the destination still refuses everything.
    pub(super) fn slow_flights(&self) -> usize {
        self.slow_flights
    }

    /// Whether deliveries that may well fail have their share: what fails slowly must leave places to the others.
    pub(super) fn is_doubtful_full(&self) -> bool {
        self.doubtful_flights >= (self.in_flight_max() / DOUBTFUL_SHARE).max(1)
    }

    /// Takes a slot for a delivery; false when there is none.
    pub(super) fn take_slot(&mut self) -> bool {
        let taken = self.share.take();
        self.out_of_slots |= !taken;
        taken
    }

    pub(super) fn give_back(&mut self, slots: usize) {
        self.share.give_back(slots);
        self.out_of_slots &= slots == 0;
    }

    /// Whether this route found no slot, and none has come free since.
    pub(super) fn is_out_of_slots(&self) -> bool {
        self.out_of_slots
    }

    /// Whether somebody waits for slots that the next settle gives back.
    pub(super) fn wants_settle(&self) -> bool {
        self.slot_wanted || self.out_of_slots
    }

    /// Notes that a settle begins, which gives back what others waited for.
    pub(super) fn begin_settle(&mut self) {
        self.slot_wanted = false;
    }

    /// Waits until another route finds no slot, or, if this one found none, until one comes free.
    pub(super) async fn slots_changed(&mut self) {
        tokio::select! {
            biased;
            () = self.share.wanted.changed() => self.slot_wanted = true,
            () = self.share.freed.changed(), if self.out_of_slots => self.out_of_slots = false,
        }
    }

    /// Counts a delivery that goes to the transport, and has a slot. Returns what the transport gets of it.
    pub(super) fn send(&mut self, flight: Flight, round: u64) -> Outbound {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let delivery = &flight.held.delivery;
        let attempt = delivery.attempts.saturating_add(1);
        let report = self.report.clone();
        let mut outbound = Outbound::new(ticket, attempt, delivery.event.clone(), delivery.position, report);
        outbound.dead_letter.clone_from(&flight.held.dead_letter);
        outbound.round = round;
        self.doubtful_flights += usize::from(flight.line == Line::Doubtful);
        self.slow_flights += usize::from(flight.line == Line::Slow);
        self.flights.insert(ticket, flight);
        outbound
    }

    /// Removes a delivery that the transport reported. It keeps its slot until that is given back.
    pub(super) fn land(&mut self, ticket: u64) -> Option<Flight> {
        let flight = self.flights.remove(&ticket)?;
        self.doubtful_flights -= usize::from(flight.line == Line::Doubtful);
        self.slow_flights -= usize::from(flight.line == Line::Slow);
        Some(flight)
    }
}
