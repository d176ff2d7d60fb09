//! Row locks: a take is a transaction that is held while its rows are delivered, and committed with their verdicts.
//!
//! Verdicts are written when the last row of a take has one: before that a commit would let go of the others. So a crash
//! repeats what is out, which is never more than the relay may have in flight.
//!
//! The server ends a transaction that is idle for longer than the lease. Every heartbeat says something in each of them: rows
//! stay locked for as long as their relay lives, and not for longer, however it ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postroom_core::{Budget, Delivery, LaneTerm, Ownership, Settlement, StoreError};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::lease::Look;
use super::row::Due;
use super::settle::Sorted;
use super::{LANE, PendingRow, Shared};
use crate::executor::{OpenTransaction, Rows, Statement};

/// The transaction of a take; nothing once it is ended, or lost. Whoever uses it has it to himself.
type Transaction = Arc<Mutex<Option<Box<dyn OpenTransaction>>>>;

/// A take whose rows are locked.
pub(super) struct HeldTake {
    held: Transaction,
    /// Its rows in the engine's hands.
    handles: Vec<i64>,
    /// Rows without a verdict.
    open: usize,
    verdicts: Sorted,
}

const NO_LONGER_LOCKED: &str = "rows that were being delivered are no longer locked; they come again";

/// The first pause after a take that could not be settled; each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause, and how long nothing may fail until the next one is the shortest again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A pause after takes that could not be settled: their rows come again, and would at once. One row may be the cause, so
/// what is settled beside it does not end the pause.
#[derive(Debug, Default)]
pub(super) struct Pause {
    pauses: u32,
    until: Option<Instant>,
}

impl Pause {
    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }

    fn settled(&mut self) {
        if self.until.is_some_and(|until| until.elapsed() >= PAUSE_MAX) {
            *self = Self::default();
        }
    }

    /// What was out together, and failed together, makes one pause.
    fn failed(&mut self) {
        if self.is_over() {
            let pause = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
            self.until = Some(Instant::now() + pause);
            self.pauses = self.pauses.saturating_add(1);
        }
    }
}

impl Shared {
    /// Locks what is due and nobody else has. `sure` says that something probably is.
    pub(super) async fn lock(
        &self,
        look: &Look,
        budget: Budget,
        sure: bool,
    ) -> Result<(Vec<Delivery>, bool), StoreError> {
        let executor = &self.inner.executor;
        let (bound, out, held, rested) = {
            let state = self.state();
            (state.bound, state.out.len(), state.held.len(), state.pause.is_over())
        };
        let takes = executor.holds_max();
        let limit = budget.rows.min(bound.div_ceil(takes.max(1))).min(bound.saturating_sub(out));
        if limit == 0 || held >= takes || !rested {
            // The end of a take wakes us; after a pause the next poll does.
            return Ok((Vec::new(), false));
        }
        // Nothing is in hand that is not locked.
        let of = |text: &Arc<str>, limit: usize| self.reading(text, &HashSet::new(), limit);
        // No transaction for nothing.
        if !sure && executor.look("take", vec![of(&self.takes.any, limit)]).await?.first().is_none_or(Rows::is_empty) {
            return Ok((Vec::new(), false));
        }
        let (cursor, unblocked, share) = {
            let mut state = self.state();
            (state.walk.next(look), state.walk.unblocked.clone(), state.share(limit))
        };
        let from_the_front = cursor.is_none();
        let (failed, held) = executor.hold("take", of(&self.takes.again, share), self.relay.lease).await?;
        let rest = limit - failed.len();
        let read = match cursor {
            Some(cursor) => of(&self.takes.behind, rest).bind(cursor).bind(&self.route.name).bind(unblocked),
            None => of(&self.takes.first, rest),
        };
        let (rows, held) = held.run("take", read).await?;
        let (at_the_end, share_used) = (rows.len() < rest, !failed.is_empty() && failed.len() == share);
        let (mut good, mut verdicts, mut last) = (Vec::with_capacity(limit), Sorted::default(), None);
        let due = |row| self.due(row);
        let fresh = rows.into_iter().map(due).inspect(|due| last = Some(due.cursor.clone()));
        for Due { row, attempts, event, .. } in failed.into_iter().map(due).chain(fresh) {
            // Nobody can change it while we hold its lock.
            let out = PendingRow::read(row, attempts, None);
            match event {
                event @ Ok(_) => good.push((out, event)),
                event if self.offers_unreadable() => good.push((out, event)),
                Err(why) => {
                    let (out, failure) = why.of(out);
                    self.give_up(&mut verdicts, &out, &failure);
                }
            }
        }
        let good = self.unprocessed(good, &mut verdicts).await?;
        let more = self.state().walk.came(from_the_front, last, at_the_end) || share_used;
        if good.is_empty() {
            // Nothing, or nothing that can be delivered.
            let write = self.statements(0, &verdicts);
            held.finish("take", write.statements).await?;
            return Ok((Vec::new(), more));
        }
        let mut state = self.state();
        state.handles += 1;
        let lane = LaneTerm { lane: LANE, term: state.handles };
        let open = good.len();
        let deliver = |(out, event)| self.deliver_or_refuse(&mut state, lane, out, event);
        let deliveries: Vec<Delivery> = good.into_iter().map(deliver).collect();
        let handles = deliveries.iter().map(|delivery| delivery.handle).collect();
        let held = Arc::new(Mutex::new(Some(held)));
        state.held.insert(lane.term, HeldTake { held, handles, open, verdicts });
        Ok((deliveries, more))
    }

    /// Says something in every transaction that is held, so that the server does not end it. One that does not answer is lost, and
    /// with it our word on its rows.
    pub(super) async fn keep_locks(&self) {
        let held: Vec<(i64, Transaction)> =
            self.state().held.iter().map(|(term, take)| (*term, Arc::clone(&take.held))).collect();
        let lost =
            join_all(held.into_iter().map(|(term, held)| async move { (!self.keep(&held).await).then_some(term) }));
        for term in lost.await.into_iter().flatten() {
            let mut state = self.state();
            let Some(take) = state.held.remove(&term) else { continue };
            for handle in take.handles {
                state.remove(handle);
            }
            state.lost.push(LaneTerm { lane: LANE, term });
            state.pause.failed();
        }
    }

    /// Whether a transaction is still there. One that is being ended answers for itself.
    async fn keep(&self, held: &Transaction) -> bool {
        let Ok(mut slot) = held.try_lock() else { return true };
        let Some(held) = slot.take() else { return true };
        // The next heartbeat must not wait for it.
        let answer = timeout(self.relay.lease / 3, held.run("renew", Statement::new("select 'here'"))).await;
        match answer {
            Ok(Ok((_, held))) => {
                *slot = Some(held);
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(route = self.route.name, %error, "{NO_LONGER_LOCKED}");
                false
            }
            Err(_) => {
                tracing::warn!(route = self.route.name, error = "no answer in time", "{NO_LONGER_LOCKED}");
                false
            }
        }
    }

    /// Keeps verdicts, and ends the takes that have all of theirs.
    pub(super) async fn settle_locked(&self, settlements: &[Settlement]) -> Ownership {
        let (mut complete, mut lost) = (Vec::new(), Vec::new());
        {
            let mut state = self.state();
            for settlement in settlements {
                let term = settlement.lane.term;
                let (Some(out), Some(take)) = (state.remove(settlement.handle), state.held.get_mut(&term)) else {
                    lost.push(settlement.lane);
                    continue;
                };
                take.verdicts.add(&self.inner.mapping, &out, settlement);
                take.open -= 1;
                if take.open == 0 {
                    complete.extend(state.held.remove(&term).map(|take| (settlement.lane, take)));
                }
            }
        }
        let ends = complete.into_iter().map(|(lane, take)| async move { (!self.end(take).await).then_some(lane) });
        lost.extend(join_all(ends).await.into_iter().flatten());
        lost.dedup();
        self.inner.wake.wake();
        let mut ownership = self.state().ownership(false);
        ownership.lost.extend(lost);
        ownership
    }

    /// Ends every take with the verdicts it has; what has none is anybody's.
    pub(super) async fn end_all(&self) {
        let takes: Vec<HeldTake> = {
            let mut state = self.state();
            state.out.clear();
            state.rows.clear();
            state.held.drain().map(|(_, take)| take).collect()
        };
        join_all(takes.into_iter().map(|take| self.end(take))).await;
    }

    /// Writes the verdicts and commits. When that fails, the locks are gone, and with them our word on these rows.
    async fn end(&self, take: HeldTake) -> bool {
        let write = self.statements(0, &take.verdicts);
        let Some(held) = take.held.lock().await.take() else { return false };
        match held.finish("settle", write.statements).await {
            Ok(results) => {
                self.state().pause.settled();
                for (n, rows) in write.marked {
                    self.compare(results.get(n), rows);
                }
                true
            }
            Err(error) => {
                self.state().pause.failed();
                tracing::warn!(route = self.route.name, %error, "{NO_LONGER_LOCKED}");
                false
            }
        }
    }
}

impl std::fmt::Debug for HeldTake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldTake").field("open", &self.open).finish_non_exhaustive()
    }
}
