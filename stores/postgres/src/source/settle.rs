//! Makes verdicts durable, with the positions of their lanes.
//!
//! What only got through is one statement. What failed, came back, or stood in the table is a transaction that first locks
//! its lanes: whoever lost one in the meantime finds nothing to lock, and changes nothing. Memory changes when it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use postroom_core::{Settlement, Standing, StoreError, Verdict};
use sqlx::Row as _;

use super::checkpoint::{self, Checkpoint, Receipts, Saved, Writer};
use super::failures::{self, Failed, Returned};
use super::lane::Out;
use super::{Shared, State};
use crate::clock::Time;
use crate::database::Session;
use crate::error::Fault;
use crate::release::release;

/// How far the ranges of one receipt may reach, in numbers: a receipt is found by where it begins.
pub(crate) const RECEIPT_SPAN: i64 = 100_000;

/// Numbers that got through, with the destination's words where it had any.
type Through = BTreeMap<i64, Option<String>>;

/// What one settle has to write.
#[derive(Debug, Default)]
struct Work {
    /// Lanes as they will be.
    lanes: BTreeMap<i16, Checkpoint>,
    /// First deliveries that got through, per lane.
    through: BTreeMap<i16, Through>,
    /// Parked rows that did, by handle.
    recovered: Through,
    fresh: Vec<Failed>,
    parked: Vec<Failed>,
    returned: Vec<Returned>,
}

/// What came of it.
#[derive(Debug)]
struct Done {
    lanes: BTreeMap<i16, Checkpoint>,
    written: Saved,
    /// Of those that came back, the ones that wait in the table now.
    waiting: BTreeSet<i64>,
}

/// Lanes that are ours and stay so until the transaction ends.
#[derive(Debug)]
pub(super) struct Fenced {
    pub(super) lanes: BTreeSet<i16>,
    pub(super) now: i64,
}

impl Shared {
    pub(super) async fn settle(&self, settlements: Vec<Settlement>) -> Result<Standing, StoreError> {
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        let state = &mut *guard;
        let (mut lost, mut ours) = (Vec::new(), Vec::new());
        for settlement in settlements {
            let number = i16::try_from(settlement.lane.lane).unwrap_or(-1);
            if state.lanes.get(&number).is_some_and(|lane| lane.term == settlement.lane.term) {
                ours.push((number, settlement));
            } else if !lost.contains(&settlement.lane) {
                lost.push(settlement.lane);
            }
        }
        let paused = if ours.is_empty() { false } else { self.settle_ours(state, ours).await? };
        lost.retain(|lane| !state.lost.contains(lane));
        lost.append(&mut state.lost);
        Ok(Standing { paused, lanes: state.lanes.len(), lost, ..Standing::default() })
    }

    /// Settles; says whether the route is paused.
    async fn settle_ours(&self, state: &mut State, ours: Vec<(i16, Settlement)>) -> Result<bool, StoreError> {
        state.quiet = None;
        let handles: Vec<i64> = ours.iter().map(|(_, settlement)| settlement.handle).collect();
        let work = self.sort(state, ours);
        let blocking: Vec<(i16, String)> = work.fresh.iter().filter_map(Failed::blocking).collect();
        let (writer, writes) = (self.writer(), work.changes_deliveries());
        let done = self
            .inner
            .db
            .attempt("settle", writes, move |session| {
                Box::pin(async move {
                    if writes {
                        with_deliveries(session, &writer, work).await
                    } else {
                        through(session, &writer, work).await
                    }
                })
            })
            .await
            .map_err(|fault| self.failed(state, fault, "settle"))?;
        let mut returned = Vec::new();
        for handle in handles {
            returned.extend(state.out.remove(&handle));
        }
        for (number, checkpoint) in done.lanes {
            if !done.written.lanes.contains(&number) {
                self.lose(state, number);
            } else if let Some(lane) = state.lanes.get_mut(&number) {
                (lane.unsettled, lane.counts) = (checkpoint.unsettled, checkpoint.counts);
                lane.unwritten_since = None;
            }
        }
        for (number, key) in blocking {
            if let Some(lane) = state.lanes.get_mut(&number) {
                lane.blocks(&key);
            }
        }
        for Out { lane, row } in returned {
            // Still unsettled: it came back. One that waits in the table is not.
            if let (Some(row), Some(lane)) = (row, state.lanes.get_mut(&lane))
                && lane.unsettled.contains(row.seq)
            {
                debug_assert!(!done.waiting.contains(&row.seq), "what waits in the table is settled");
                lane.again.insert(row.seq, row);
            }
        }
        Ok(done.written.paused)
    }

    /// Sorts the verdicts into what has to be written.
    fn sort(&self, state: &State, mut ours: Vec<(i16, Settlement)>) -> Work {
        let mut work = Work::default();
        let mut blocked: BTreeSet<String> = BTreeSet::new();
        // What failed goes before what is given back: the one may have to wait behind the other.
        ours.sort_by_key(|(_, settlement)| (settlement.verdict == Verdict::Returned, settlement.handle));
        for (number, Settlement { handle, verdict, took, .. }) in ours {
            let Some(owned) = state.lanes.get(&number) else { continue };
            let lane = work.lanes.entry(number).or_insert_with(|| Checkpoint::of(owned));
            // A number that is not unsettled has its outcome already: this settle is repeated.
            if handle > 0 && !lane.unsettled.contains(handle) {
                continue;
            }
            let key = state.out.get(&handle).and_then(Out::key).map(str::to_owned);
            match verdict {
                Verdict::Delivered(receipt) if handle > 0 => {
                    lane.unsettled.remove(handle);
                    lane.counts.delivered += 1;
                    work.through.entry(number).or_default().insert(handle, receipt.0.map(String::from));
                }
                Verdict::Delivered(receipt) => drop(work.recovered.insert(-handle, receipt.0.map(String::from))),
                Verdict::Returned => {
                    let Some(key) = key.filter(|_| handle > 0) else { continue };
                    if owned.may_block(Some(&key)) || blocked.contains(&key) {
                        work.returned.push(Returned { lane: number, seq: handle, key });
                    }
                }
                verdict => {
                    let failed = Failed::of(&self.route, verdict, handle, number, key, took);
                    if handle < 0 {
                        work.parked.extend(failed);
                        continue;
                    }
                    lane.unsettled.remove(handle);
                    lane.counts.parked += 1;
                    blocked.extend(failed.as_ref().and_then(Failed::blocking).map(|(_, key)| key));
                    work.fresh.extend(failed);
                }
            }
        }
        work
    }
}

impl Work {
    fn changes_deliveries(&self) -> bool {
        !(self.recovered.is_empty() && self.fresh.is_empty() && self.parked.is_empty() && self.returned.is_empty())
    }
}

/// Writes lanes of which everything got through.
async fn through(session: &mut Session, writer: &Writer, work: Work) -> Result<Done, Fault> {
    let checkpoints: Vec<Checkpoint> = work.lanes.values().cloned().collect();
    let written = checkpoint::save(session, writer, &checkpoints, receipts(&work.through)).await?;
    Ok(Done { lanes: work.lanes, written, waiting: BTreeSet::new() })
}

/// Writes lanes with what failed or came back, as long as they are ours.
async fn with_deliveries(session: &mut Session, writer: &Writer, mut work: Work) -> Result<Done, Fault> {
    let all: Vec<Checkpoint> = work.lanes.values().cloned().collect();
    let fenced = fence(session, writer, &all).await?;
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
            lane.unsettled.remove(returned.seq);
            lane.counts.parked += 1;
        }
        free.insert(returned.key.clone());
    }
    release(session, route, &free.into_iter().collect::<Vec<_>>(), now).await?;
    let ours: Vec<Checkpoint> = work.lanes.values().filter(|c| fenced.lanes.contains(&c.lane)).cloned().collect();
    let written = checkpoint::save(session, writer, &ours, receipts(&work.through)).await?;
    Ok(Done { lanes: work.lanes, written, waiting })
}

/// Removes parked rows that got through; returns the keys that may go on.
async fn recovered(session: &mut Session, fenced: &Fenced, work: &mut Work) -> Result<BTreeSet<String>, Fault> {
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
        work.through.entry(number).or_default().insert(seq, words);
        if let (false, Some(lane)) = (row.try_get("replay")?, work.lanes.get_mut(&number)) {
            lane.counts.recovered += 1;
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
        .fetch_all(&mut *session.conn)
        .await?;
    let mut fenced = Fenced { lanes: BTreeSet::new(), now: 0 };
    for row in &rows {
        fenced.lanes.insert(row.try_get(0)?);
        fenced.now = row.try_get::<Time, _>(1)?.0;
    }
    Ok(fenced)
}

/// One receipt per lane and stretch of numbers.
fn receipts(through: &BTreeMap<i16, Through>) -> Receipts {
    let mut receipts = Receipts::default();
    for (lane, numbers) in through {
        let mut numbers: Vec<(i64, Option<&str>)> = numbers.iter().map(|(n, words)| (*n, words.as_deref())).collect();
        while let Some((first, _)) = numbers.first().copied() {
            let rest = numbers.split_off(numbers.partition_point(|(n, _)| n - first < RECEIPT_SPAN));
            receipts.add(*lane, &numbers);
            numbers = rest;
        }
    }
    receipts
}
