//! One lane of one route: its checkpoint, its owner, and the deliveries parked.
//!
//! ```text
//! log ──fresh──► unsettled ──delivered──► counted
//!                  │  ▲ └────failed, blocked──► rows ──delivered──► recovered
//!                  ▼  │ returned, or a new owner
//!                 again
//! ```
//!
//! Everything here is arithmetic on one lane; who may own it is [`crate::relay`], what is read when is [`crate::source`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use postroom_admin::view::{ArrivalRow, AttemptRow, Counts};
use postroom_core::{DeliveryState, Event, Failure, FailureKind, LaneTerm, Ranges, Receipt, Settlement, Verdict};

use crate::delivery::{Parked, Rules};
use crate::log::Log;

/// How many followers become due at once when their head is done.
const FOLLOWERS_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Boot id of the owner.
    pub(crate) holder: Option<String>,
    pub(crate) term: i64,
    /// Everything up to here was in the log before the route started.
    pub(crate) start: i64,
    pub(crate) hwm: i64,
    pub(crate) unsettled: Ranges,
    /// Those of `unsettled` that are in nobody's hands.
    pub(crate) again: BTreeSet<i64>,
    /// What the owner has in hand: handle → number.
    pub(crate) handed: HashMap<i64, i64>,
    pub(crate) counts: Counts,
    pub(crate) rows: BTreeMap<i64, Parked>,
    /// Rows in nobody's hands whose time comes by itself.
    pub(crate) due: BTreeSet<(Timestamp, i64)>,
    /// The blocking rows of each key, in order.
    pub(crate) keys: HashMap<String, BTreeSet<i64>>,
    /// Rows that are retrying.
    pub(crate) retrying: u64,
    pub(crate) attempts: BTreeMap<i64, Vec<AttemptRow>>,
    /// How deliveries ended, in order of time.
    pub(crate) arrivals: BTreeMap<i64, Vec<ArrivalRow>>,
    pub(crate) discarded: BTreeSet<i64>,
}

impl Lane {
    /// A lane of a new route: everything up to `start` is none of its business, and so is what was pruned before.
    pub(crate) fn starting_after(start: i64, base: u64) -> Self {
        Self { start, hwm: start, counts: Counts { base, ..Counts::default() }, ..Self::default() }
    }

    pub(crate) fn is_held(&self, boot: &str, lane: LaneTerm) -> bool {
        self.term == lane.term && self.holder.as_deref() == Some(boot)
    }

    /// Gives the lane to nobody; what was in the owner's hands is there for the next one.
    pub(crate) fn vacate(&mut self) {
        self.holder = None;
        let handed = std::mem::take(&mut self.handed);
        for number in handed.into_values() {
            self.change(number, |row| row.handed = false);
        }
        self.again = self.unsettled.numbers().collect();
    }

    /// Gives the lane to a new owner under the next term.
    pub(crate) fn give(&mut self, boot: &str) -> i64 {
        self.vacate();
        self.holder = Some(boot.to_owned());
        self.term += 1;
        self.term
    }

    /// Whether an event of this key and number waits for an earlier one.
    pub(crate) fn is_blocked(&self, event: &Event, number: i64) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        let blocking = event.ordering_key().and_then(|key| self.keys.get(key));
        blocking.and_then(BTreeSet::first).is_some_and(|first| *first < number)
    }

    /// Parks a fresh event; the caller has counted it as seen and it is not unsettled.
    pub(crate) fn park(&mut self, number: i64, row: Parked) {
        self.counts.parked += 1;
        self.put(number, row);
    }

    /// Adds a row and everything that finds it.
    pub(crate) fn put(&mut self, number: i64, row: Parked) {
        if row.has_due_time() && !row.handed {
            self.due.insert((row.due_at, number));
        }
        if row.blocks
            && let Some(key) = row.event.ordering_key()
        {
            match self.keys.get_mut(key) {
                Some(numbers) => drop(numbers.insert(number)),
                None => drop(self.keys.insert(key.to_owned(), BTreeSet::from([number]))),
            }
        }
        self.retrying += u64::from(row.state == DeliveryState::Retrying);
        self.rows.insert(number, row);
    }

    /// Removes a row and everything that finds it.
    pub(crate) fn remove(&mut self, number: i64) -> Option<Parked> {
        let row = self.rows.remove(&number)?;
        self.due.remove(&(row.due_at, number));
        if row.blocks
            && let Some(key) = row.event.ordering_key()
            && let Some(numbers) = self.keys.get_mut(key)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.keys.remove(key);
            }
        }
        self.retrying -= u64::from(row.state == DeliveryState::Retrying);
        Some(row)
    }

    /// Changes a row, if it is there.
    pub(crate) fn change(&mut self, number: i64, change: impl FnOnce(&mut Parked)) {
        if let Some(mut row) = self.remove(number) {
            change(&mut row);
            self.put(number, row);
        }
    }

    /// Lets the next followers of a key go, up to the first that still blocks; none while one is on its way.
    pub(crate) fn release(&mut self, key: &str, now: Timestamp) {
        let Some(numbers) = self.keys.get(key) else { return };
        let followers: Vec<i64> = numbers
            .iter()
            .copied()
            .take_while(|n| self.rows.get(n).is_some_and(|row| row.state == DeliveryState::Blocked))
            .take(FOLLOWERS_MAX)
            .collect();
        for number in followers {
            self.change(number, |row| {
                row.enter(DeliveryState::Due, now);
                row.due_at = now;
            });
        }
    }

    /// Makes the followers behind a failed one wait again.
    fn hold_back(&mut self, key: &str, number: i64, now: Timestamp) {
        let Some(numbers) = self.keys.get(key) else { return };
        let behind: Vec<i64> = numbers
            .range(number + 1..)
            .copied()
            .take_while(|n| self.rows.get(n).is_some_and(|row| row.state == DeliveryState::Due))
            .collect();
        for number in behind {
            self.change(number, |row| row.enter(DeliveryState::Blocked, now));
        }
    }

    /// Writes one verdict; says whether something was delivered by it. A handle that is not in the owner's hands was
    /// settled before, and changes nothing.
    pub(crate) fn settle(&mut self, settlement: &Settlement, log: &Log, rules: Rules, now: Timestamp) -> bool {
        let Some(number) = self.handed.remove(&settlement.handle) else { return false };
        if self.rows.contains_key(&number) {
            self.settle_parked(number, settlement, rules, now)
        } else if self.unsettled.contains(number) {
            self.settle_fresh(number, settlement, log, rules, now)
        } else {
            // An operator removed the row while it was on its way.
            false
        }
    }

    fn settle_fresh(&mut self, number: i64, settled: &Settlement, log: &Log, rules: Rules, now: Timestamp) -> bool {
        if let Verdict::Delivered(receipt) = &settled.verdict {
            self.unsettled.remove(number);
            self.counts.delivered += 1;
            self.arrived(number, receipt, None, now);
            return true;
        }
        // Unsettled events are never pruned.
        let Some(row) = log.get(number) else { return false };
        let parked = |state| Parked::new(Arc::clone(&row.event), row.appended_at, state, now);
        let row = match &settled.verdict {
            Verdict::Returned if !self.is_blocked(&row.event, number) => {
                self.again.insert(number);
                return false;
            }
            Verdict::Delivered(_) | Verdict::Returned => parked(DeliveryState::Blocked),
            Verdict::Retry { attempts, after, failure } => {
                self.tried(number, *attempts, failure, settled.took, now);
                let mut row = parked(DeliveryState::Retrying);
                row.due_at = later(now, *after);
                failed(&mut row, *attempts, failure);
                row
            }
            Verdict::Dead { attempts, failure, .. } => {
                self.tried(number, *attempts, failure, settled.took, now);
                let mut row = parked(DeliveryState::Dead);
                failed(&mut row, *attempts, failure);
                row
            }
        };
        let mut row = row;
        row.judge(rules);
        self.unsettled.remove(number);
        let event = Arc::clone(&row.event);
        self.park(number, row);
        if settled.verdict == Verdict::Returned
            && let Some(key) = event.ordering_key()
        {
            // The key may have gone on since, up to those that are later than this one.
            self.hold_back(key, number, now);
        }
        false
    }

    fn settle_parked(&mut self, number: i64, settled: &Settlement, rules: Rules, now: Timestamp) -> bool {
        match &settled.verdict {
            Verdict::Delivered(receipt) => {
                let Some(row) = self.remove(number) else { return false };
                *(if row.replay { &mut self.counts.replayed } else { &mut self.counts.recovered }) += 1;
                self.arrived(number, receipt, row.replayed_by.clone(), now);
                if row.blocks
                    && let Some(key) = row.event.ordering_key()
                {
                    self.release(key, now);
                }
                return true;
            }
            Verdict::Returned => self.change(number, |row| row.handed = false),
            Verdict::Retry { attempts, after, failure } => {
                self.tried(number, *attempts, failure, settled.took, now);
                let due_at = later(now, *after);
                self.fail(number, DeliveryState::Retrying, rules, now, |row| {
                    row.due_at = due_at;
                    failed(row, *attempts, failure);
                });
            }
            Verdict::Dead { attempts, failure, .. } => {
                self.tried(number, *attempts, failure, settled.took, now);
                self.fail(number, DeliveryState::Dead, rules, now, |row| failed(row, *attempts, failure));
            }
        }
        false
    }

    /// Moves a row to the state a failure brings, and its followers with it.
    pub(crate) fn fail(
        &mut self,
        number: i64,
        state: DeliveryState,
        rules: Rules,
        now: Timestamp,
        change: impl FnOnce(&mut Parked),
    ) {
        let Some(mut row) = self.remove(number) else { return };
        row.handed = false;
        let blocked = row.blocks;
        // An operator gave it up while it was on its way: a failure does not bring it back.
        if row.state != DeliveryState::Dead {
            row.enter(state, now);
            change(&mut row);
            row.judge(rules);
        }
        let (blocks, event) = (row.blocks, Arc::clone(&row.event));
        self.put(number, row);
        let Some(key) = event.ordering_key() else { return };
        if blocks {
            self.hold_back(key, number, now);
        } else if blocked {
            self.release(key, now);
        }
    }

    fn arrived(&mut self, number: i64, receipt: &Receipt, replay: Option<String>, now: Timestamp) {
        let receipt = receipt.place.as_deref().map(str::to_owned);
        self.arrivals.entry(number).or_default().push(ArrivalRow { at: now, discarded: false, receipt, replay });
    }

    fn tried(&mut self, number: i64, attempt: u32, failure: &Failure, took: Duration, now: Timestamp) {
        let outcome = match failure.kind {
            FailureKind::Permanent => "permanent",
            _ => "transient",
        };
        let tries = self.attempts.entry(number).or_default();
        // What is offered again and again until somebody knows it is told once.
        if failure.kind == FailureKind::NotYet && tries.last().is_some_and(|last| last.attempt == attempt) {
            return;
        }
        tries.push(AttemptRow {
            attempt,
            replay: self.rows.get(&number).and_then(|row| row.replayed_by.clone()),
            at: now,
            outcome: outcome.to_owned(),
            code: failure.code.to_string(),
            error: failure.error.clone(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            handlers: failure.handlers.clone(),
        });
    }
}

fn failed(row: &mut Parked, attempts: u32, failure: &Failure) {
    row.attempts = attempts;
    row.code = Some(failure.code.to_string());
    row.error = Some(failure.error.clone());
}

/// That long after `now`; as far as times go when it is further than that.
pub(crate) fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.checked_add(after).unwrap_or(Timestamp::MAX)
}
