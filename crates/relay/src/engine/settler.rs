//! Collects verdicts until it is worth a write: every 100 ms, when half the slots wait for it, or when somebody finds
//! none.

use std::time::Duration;

use postroom_core::{Delivery, LaneTerm, Settlement, Verdict};

/// Longest time a verdict waits for company.
const INTERVAL: Duration = Duration::from_millis(100);
/// First and longest pause after a settle that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How much a settle is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Nobody waits.
    Calm,
    /// A delivery that finds no slot waits, or a stop, or a drain. What comes while a settle runs goes with the next
    /// one.
    Now,
}

/// Verdicts with the deliveries they are about.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) settlements: Vec<Settlement>,
    pub(super) deliveries: Vec<Delivery>,
    /// Slots that come back once this is in the store.
    pub(super) slots: usize,
}

/// Verdicts on their way into the store.
#[derive(Debug)]
pub(super) struct Settler {
    batch: Batch,
    full: usize,
    since: Duration,
    not_before: Duration,
    backoff: Duration,
}

impl Settler {
    /// Makes a settler that settles at the latest when `full` verdicts wait.
    pub(super) fn new(full: usize) -> Self {
        let full = full.max(1);
        Self { batch: Batch::default(), full, since: Duration::ZERO, not_before: Duration::ZERO, backoff: BACKOFF.0 }
    }

    /// Adds a verdict. One on a try has a slot, which comes back with the settle; a return has none.
    pub(super) fn push(&mut self, now: Duration, delivery: Delivery, verdict: Verdict, took: Duration) {
        self.batch.slots += usize::from(verdict != Verdict::Returned);
        if self.batch.settlements.is_empty() {
            self.since = now;
        }
        self.batch.settlements.push(Settlement { handle: delivery.handle, lane: delivery.lane, verdict, took });
        self.batch.deliveries.push(delivery);
    }

    /// Returns the verdicts to settle now.
    pub(super) fn due(&mut self, now: Duration, urgency: Urgency) -> Option<Batch> {
        let count = self.batch.settlements.len();
        let ripe = match urgency {
            Urgency::Calm => count >= self.full || now >= self.since + INTERVAL,
            Urgency::Now => true,
        };
        (count > 0 && ripe && now >= self.not_before).then(|| std::mem::take(&mut self.batch))
    }

    /// When to settle, if something waits.
    pub(super) fn next(&self, urgency: Urgency) -> Option<Duration> {
        let wait = match urgency {
            Urgency::Calm => INTERVAL,
            Urgency::Now => Duration::ZERO,
        };
        (!self.is_empty()).then(|| (self.since + wait).max(self.not_before))
    }

    /// Notes that the batch is in the store.
    pub(super) fn succeeded(&mut self) {
        self.backoff = BACKOFF.0;
    }

    /// Keeps a batch that may or may not be in the store: it goes again after a pause, before everything newer.
    pub(super) fn failed(&mut self, now: Duration, mut batch: Batch) {
        batch.settlements.append(&mut self.batch.settlements);
        batch.deliveries.append(&mut self.batch.deliveries);
        batch.slots += self.batch.slots;
        self.batch = batch;
        self.not_before = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF.1);
    }

    /// Forgets verdicts of a lane that is no longer ours. Returns the deliveries and the slots they held.
    pub(super) fn drop_lane(&mut self, lane: LaneTerm) -> Batch {
        let mut gone = Batch::default();
        let old = std::mem::take(&mut self.batch);
        let mut slots = old.slots;
        for (settlement, delivery) in old.settlements.into_iter().zip(old.deliveries) {
            let into = if settlement.lane == lane {
                if settlement.verdict != Verdict::Returned {
                    gone.slots += 1;
                    slots -= 1;
                }
                &mut gone
            } else {
                &mut self.batch
            };
            into.settlements.push(settlement);
            into.deliveries.push(delivery);
        }
        self.batch.slots = slots;
        gone
    }

    /// How many deliveries wait to go back untried; they hold no slot, so nothing else bounds them.
    pub(super) fn returning(&self) -> usize {
        self.batch.settlements.len() - self.batch.slots
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.settlements.is_empty()
    }
}
