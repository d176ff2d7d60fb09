//! Makes verdicts durable, with the positions of their lanes.
//!
//! What only got through is one statement. What failed, came back, or stood in the table is a transaction that first locks
//! its lanes: whoever lost one in the meantime finds nothing to lock, and changes nothing.
//!
//! Takes go on while a settle is written. What it changes is absorbed by whoever next has the lock of memory; `writing`
//! keeps everybody else from writing positions before that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{Ownership, Settlement, StoreError, Verdict};
use sqlx::Row as _;

use super::checkpoint::{self, Checkpoint, Saved, Writer};
use super::failures::{self, Failed, Returned};
use super::lane::{Counts, InFlight, Lane};
use super::receipts::{Arrived, Receipts};
use super::{Shared, State};
use crate::clock::Time;
use crate::database::{Kind, Session};
use crate::error::Fault;
use crate::release::{block_again, release};

/// How far the ranges of one receipt may reach, in numbers: a receipt is found by where it begins.
pub(crate) const RECEIPT_SPAN: i64 = 100_000;

/// Numbers of a lane that got through.
type Through = Vec<(i64, Arrived)>;

/// Rows that a settle writes.
#[derive(Debug, Default)]
struct SettleBatch {
    lanes: BTreeMap<i16, Draft>,
    /// First deliveries that got through, per lane.
    through: BTreeMap<i16, Through>,
    /// Parked rows that did, by handle.
    recovered: BTreeMap<i64, Option<String>>,
    fresh: Vec<Failed>,
    parked: Vec<Failed>,
    returned: Vec<Returned>,
}

/// A lane as it will be written, and how it differs from what it was.
#[derive(Debug)]
struct Draft {
    /// What is written, with what this settle adds, and still with the numbers that it settles.
    checkpoint: Checkpoint,
    settled: Vec<i64>,
    added: Counts,
}

impl Draft {
    fn of(lane: &Lane) -> Self {
        Self { checkpoint: Checkpoint::of(lane), settled: Vec::new(), added: Counts::default() }
    }

    /// A first delivery got its outcome; `count` says how it is counted.
    fn settle(&mut self, seq: i64, count: impl Fn(&mut Counts)) {
        self.settled.push(seq);
        self.count(count);
    }

    /// The row to write.
    fn row(&self) -> Checkpoint {
        let (mut row, mut settled) = (self.checkpoint.clone(), self.settled.clone());
        settled.sort_unstable();
        row.unsettled.remove_all(&settled);
        row
    }

    fn count(&mut self, count: impl Fn(&mut Counts)) {
        count(&mut self.checkpoint.counts);
        count(&mut self.added);
    }
}

/// What came of a write.
#[derive(Debug)]
struct Done {
    lanes: BTreeMap<i16, Draft>,
    written: Saved,
}

/// What a settle means for memory, once somebody has its lock.
#[derive(Debug)]
pub(super) enum Outcome {
    Written(Settled),
    /// It may or may not have happened.
    Unknown,
}

/// A settle that is written. Its lanes may have read on meanwhile.
#[derive(Debug)]
pub(super) struct Settled {
    handles: Vec<i64>,
    lanes: BTreeMap<i16, Draft>,
    /// Lanes that were still ours.
    written: Vec<i16>,
    /// Keys that wait for a first delivery that failed.
    blocking: Vec<(i16, String)>,
}

/// Lanes that are ours and stay so until the transaction ends.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) lanes: BTreeSet<i16>,
    pub(super) now: i64,
}

impl Shared {
    pub(super) async fn settle(&self, settlements: Vec<Settlement>) -> Result<Ownership, StoreError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        // Before anything is sorted: a settle whose caller did not wait for it may still be on its way, and what it
        // writes is part of the counts that this one goes on from.
        let writing = Arc::clone(&self.writing).lock_owned().await;
        self.absorb(&mut state);
        let (mut lost, mut ours) = (Vec::new(), Vec::new());
        for settlement in settlements {
            let number = i16::try_from(settlement.lane.lane).unwrap_or(-1);
            if state.lanes.get(&number).is_some_and(|lane| lane.term == settlement.lane.term) {
                ours.push((number, settlement));
            } else if !lost.contains(&settlement.lane) {
                lost.push(settlement.lane);
            }
        }
        let mut paused = false;
        if !ours.is_empty() {
            state.quiet = None;
            let handles = ours.iter().map(|(_, settlement)| settlement.handle).collect();
            let (writer, work) = (self.writer(&state), self.sort(&state, ours));
            // Takes go on while it is written; whoever else writes positions waits.
            drop(state);
            let written = self.write_settle(writer, handles, work).await;
            drop(writing);
            state = Arc::clone(&self.state).lock_owned().await;
            self.absorb(&mut state);
            paused = written?;
        }
        lost.retain(|lane| !state.lost.contains(lane));
        lost.append(&mut state.lost);
        let given_up = std::mem::take(&mut state.given_up);
        Ok(Ownership { paused, lanes: state.lanes.len(), lost, given_up, ..Ownership::default() })
    }

    /// Writes a settle, and leaves what it means for memory to be absorbed. Says whether the route is paused.
    async fn write_settle(&self, writer: Writer, handles: Vec<i64>, work: SettleBatch) -> Result<bool, StoreError> {
        let blocking: Vec<(i16, String)> = work.fresh.iter().filter_map(Failed::blocking).collect();
        let writes = work.changes_deliveries();
        let kind = if writes { Kind::Transaction } else { Kind::Statements };
        let done = self
            .inner
            .db
            .attempt("settle", kind, move |session| {
                Box::pin(async move {
                    if writes {
                        with_deliveries(session, &writer, work).await
                    } else {
                        through(session, &writer, work).await
                    }
                })
            })
            .await;
        let (outcome, result) = match done {
            Ok(Done { lanes, written: Saved { lanes: written, paused } }) => {
                (Some(Outcome::Written(Settled { handles, lanes, written, blocking })), Ok(paused))
            }
            Err(fault) => {
                let unknown = (!fault.is_certain()).then_some(Outcome::Unknown);
                (unknown, Err(fault.at("settle", &self.inner.db.place)))
            }
        };
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).extend(outcome);
        result
    }

    /// Brings memory up to what settles have written since somebody last had its lock.
    pub(super) fn absorb(&self, state: &mut State) {
        let outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        for outcome in outcomes {
            match outcome {
                Outcome::Written(settled) => self.absorb_one(state, settled),
                Outcome::Unknown => self.lose_all(state),
            }
        }
    }

    fn absorb_one(&self, state: &mut State, settled: Settled) {
        let mut outs = Vec::new();
        for handle in settled.handles {
            outs.extend(state.out.remove(&handle));
        }
        for (number, mut draft) in settled.lanes {
            let Some(lane) = state.lanes.get_mut(&number).filter(|lane| lane.term == draft.checkpoint.term) else {
                continue;
            };
            if !settled.written.contains(&number) {
                self.lose(state, number);
                continue;
            }
            draft.settled.sort_unstable();
            lane.unsettled.remove_all(&draft.settled);
            lane.counts.add(draft.added);
            lane.unwritten_since =
                if lane.counts == draft.checkpoint.counts { None } else { lane.unwritten_since.or(Some(state.now)) };
        }
        for (number, key) in settled.blocking {
            if let Some(lane) = state.lanes.get_mut(&number) {
                lane.blocks(&key);
            }
        }
        for InFlight { lane, row } in outs {
            // ServerFingerprint unsettled: it came back.
            if let (Some(row), Some(lane)) = (row, state.lanes.get_mut(&lane))
                && lane.unsettled.contains(row.seq)
            {
                lane.again.insert(row.seq, row);
            }
        }
    }

    /// Sorts the verdicts into what has to be written.
    fn sort(&self, state: &State, mut ours: Vec<(i16, Settlement)>) -> SettleBatch {
        let mut work = SettleBatch::default();
        let mut blocked: BTreeSet<String> = BTreeSet::new();
        // What failed goes before what is given back: the one may have to wait behind the other.
        ours.sort_by_key(|(_, settlement)| (settlement.verdict == Verdict::Returned, settlement.handle));
        for (number, Settlement { handle, verdict, took, .. }) in ours {
            let Some(owned) = state.lanes.get(&number) else { continue };
            let lane = work.lanes.entry(number).or_insert_with(|| Draft::of(owned));
            // A number that is not unsettled has its outcome already: this settle is repeated.
            if handle > 0 && (lane.settled.last() == Some(&handle) || !owned.unsettled.contains(handle)) {
                continue;
            }
            let key = || state.out.get(&handle).and_then(InFlight::key).map(str::to_owned);
            match verdict {
                Verdict::Delivered(receipt) if handle > 0 => {
                    lane.settle(handle, |counts| counts.delivered += 1);
                    let through = work.through.entry(number).or_default();
                    let follows = through.last().is_some_and(|(before, _)| owned.unsettled.follows(handle, *before));
                    through.push((handle, Arrived { words: receipt.place.map(String::from), follows, replay: None }));
                }
                Verdict::Delivered(receipt) => drop(work.recovered.insert(-handle, receipt.place.map(String::from))),
                Verdict::Returned => {
                    let Some(key) = key().filter(|_| handle > 0) else { continue };
                    if owned.may_block(Some(&key)) || blocked.contains(&key) {
                        work.returned.push(Returned { lane: number, seq: handle, key });
                    }
                }
                verdict => {
                    let failed = Failed::of(&self.route, verdict, handle, number, key(), took);
                    if handle < 0 {
                        work.parked.extend(failed);
                        continue;
                    }
                    lane.settle(handle, |counts| counts.parked += 1);
                    blocked.extend(failed.as_ref().and_then(Failed::blocking).map(|(_, key)| key));
                    work.fresh.extend(failed);
                }
            }
        }
        work
    }
}

impl SettleBatch {
    fn checkpoints(&self) -> Vec<Checkpoint> {
        self.lanes.values().map(Draft::row).collect()
    }

    fn changes_deliveries(&self) -> bool {
        !(self.recovered.is_empty() && self.fresh.is_empty() && self.parked.is_empty() && self.returned.is_empty())
    }
}

/// Writes lanes of which everything got through.
async fn through(session: &mut Session, writer: &Writer, work: SettleBatch) -> Result<Done, Fault> {
    let checkpoints = work.checkpoints();
    let written = checkpoint::save(session, writer, &checkpoints, receipts(&work.through)).await?;
    Ok(Done { lanes: work.lanes, written })
}

/// Writes lanes with what failed or came back, as long as they are ours.
async fn with_deliveries(session: &mut Session, writer: &Writer, mut work: SettleBatch) -> Result<Done, Fault> {
    let fenced = fence(session, writer, &work.checkpoints()).await?;
    let (route, now) = (writer.route.as_str(), fenced.now);
    work.through.retain(|lane, _| fenced.lanes.contains(lane));
    for list in [&mut work.fresh, &mut work.parked] {
        list.retain(|failed| fenced.lanes.contains(&failed.lane));
    }
    work.returned.retain(|returned| fenced.lanes.contains(&returned.lane));
    let mut free = recovered(session, &fenced, &mut work).await?;
    free.extend(failures::write(session, route, &work.fresh, &work.parked, now).await?);
    let waiting = failures::park_returned(session, route, &work.returned, now).await?;
    for returned in work.returned.iter().filter(|returned| waiting.contains(&returned.seq)) {
        if let Some(lane) = work.lanes.get_mut(&returned.lane) {
            lane.settle(returned.seq, |counts| counts.parked += 1);
        }
        free.insert(returned.key.clone());
    }
    // Their keys may have gone on since, up to those that are later.
    let is_old = faults::is(Old::GivenBackIsOvertaken);
    let behind = work.returned.iter().filter(|returned| waiting.contains(&returned.seq) && !is_old);
    let behind: Vec<_> = behind.map(|returned| (returned.key.clone(), returned.seq)).collect();
    block_again(session, route, &behind, now).await?;
    release(session, route, &free.into_iter().collect::<Vec<_>>(), now).await?;
    let ours: Vec<Checkpoint> = work.checkpoints().into_iter().filter(|c| fenced.lanes.contains(&c.lane)).collect();
    let written = checkpoint::save(session, writer, &ours, receipts(&work.through)).await?;
    Ok(Done { lanes: work.lanes, written })
}

/// Removes parked rows that got through; returns the keys that may go on.
async fn recovered(session: &mut Session, fenced: &Fenced, work: &mut SettleBatch) -> Result<BTreeSet<String>, Fault> {
    let mut free = BTreeSet::new();
    if work.recovered.is_empty() {
        return Ok(free);
    }
    let handles: Vec<i64> = work.recovered.keys().copied().collect();
    let lanes: Vec<i16> = fenced.lanes.iter().copied().collect();
    let statement = session.sql.query(include_str!("../sql/delivered.sql")).bind(handles).bind(lanes);
    for row in &statement.fetch_all(&mut *session.conn).await? {
        let (handle, number, seq): (i64, i16, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let words = work.recovered.get(&handle).cloned().flatten();
        let replay: Option<String> = row.try_get("replayed_by")?;
        work.through.entry(number).or_default().push((seq, Arrived { words, follows: false, replay }));
        let is_replay: bool = row.try_get("replay")?;
        if let Some(lane) = work.lanes.get_mut(&number) {
            lane.count(|counts| *(if is_replay { &mut counts.replayed } else { &mut counts.recovered }) += 1);
        }
        if let (true, Some(key)) = (row.try_get("blocks")?, row.try_get("key")?) {
            free.insert(key);
        }
    }
    Ok(free)
}

/// Locks the lanes that are still ours under these terms.
pub(super) async fn fence(session: &mut Session, writer: &Writer, lanes: &[Checkpoint]) -> Result<Fenced, Fault> {
    let rows = session
        .sql
        .query(include_str!("../sql/fence.sql"))
        .bind(writer.route.clone())
        .bind(writer.boot.clone())
        .bind(lanes.iter().map(|c| c.lane).collect::<Vec<_>>())
        .bind(lanes.iter().map(|c| c.term).collect::<Vec<_>>())
        .bind(writer.clock)
        .bind(writer.started)
        .fetch_all(&mut *session.conn)
        .await?;
    let mut fenced = Fenced { lanes: BTreeSet::new(), now: 0 };
    for row in &rows {
        fenced.lanes.insert(row.try_get(0)?);
        fenced.now = row.try_get::<Time, _>(1)?.0;
    }
    Ok(fenced)
}

/// One receipt per lane, replay and stretch of numbers.
fn receipts(through: &BTreeMap<i16, Through>) -> Receipts {
    let mut receipts = Receipts::default();
    for (lane, numbers) in through {
        let mut numbers: Vec<(i64, &Arrived)> = numbers.iter().map(|(n, arrived)| (*n, arrived)).collect();
        // What was parked stands among them in the order of its rows.
        numbers.sort_unstable_by_key(|(n, arrived)| (&arrived.replay, *n));
        while let Some((first, arrived)) = numbers.first().copied() {
            let fits = |(n, other): &(i64, &Arrived)| other.replay == arrived.replay && n - first < RECEIPT_SPAN;
            let rest = numbers.split_off(numbers.partition_point(fits));
            receipts.add(*lane, &numbers);
            numbers = rest;
        }
    }
    receipts
}
