//! Looks for the late rows of transactions that were open for many numbers, by transaction instead of by number.
//!
//! A sweep runs beside takes and settles: no lock is held while the server works, and lanes that it does not concern go on. Its
//! own lanes are not read until it is over, because a fresh event may follow a late one of its key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::batch::BatchBuilder;
use super::lane::{Lane, RouteFilter};
use super::position::Snapshot;
use super::read::Brought;
use super::{Shared, State};
use crate::database::{Kind, joined};
use crate::error::Fault;
use crate::events::Logged;

/// Most rows that one sweep brings; the next one goes on behind them.
const ROWS_MAX: usize = 20_000;
/// How long a take waits for a sweep: so long does a settle wait for the take.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// A sweep on its way.
pub(super) struct Sweeping {
    /// Its lanes, and under which terms they were ours.
    terms: BTreeMap<i16, i64>,
    /// Which transactions had ended: the rows of those are looked for.
    snapshot: Snapshot,
    task: JoinHandle<Result<Vec<Logged>, Fault>>,
}

impl Sweeping {
    pub(super) fn concerns(&self, lane: i16) -> bool {
        self.terms.contains_key(&lane)
    }
}

impl Shared {
    /// Begins to look for the late rows of lanes of which a transaction has ended that was open for long.
    pub(super) fn begin_sweep(&self, state: &mut State, snapshot: &Snapshot) {
        let Some(reader) = state.reader.as_ref().filter(|_| state.sweeping.is_none()) else { return };
        let needs = |lane: &&Lane| lane.position.needs_sweep(snapshot);
        let (mut lanes, mut xs, mut los, mut hwms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut terms = BTreeMap::new();
        for lane in state.lanes.values().filter(needs) {
            terms.insert(lane.number, lane.term);
            // All that have ended, also those close by: the late rows of a key come in order only together.
            for (x, lo) in lane.position.ended(snapshot) {
                lanes.push(lane.number);
                xs.push(x);
                los.push(lo);
                hwms.push(lane.position.hwm);
            }
        }
        if terms.is_empty() {
            return;
        }
        let mut all = xs.clone();
        all.sort_unstable();
        all.dedup();
        let (inner, text) = (Arc::clone(&self.inner), Arc::clone(&reader.texts.sweep));
        let task = tokio::spawn(async move {
            let swept = inner.db.attempt("take", Kind::Statements, move |session| {
                Box::pin(async move {
                    let statement = session.sql.query_made(text).bind(lanes).bind(xs).bind(los).bind(hwms).bind(all);
                    let limit = i64::try_from(ROWS_MAX).unwrap_or(i64::MAX);
                    let rows =
                        statement.bind(limit).bind(super::ownership::INLINE).fetch_all(&mut *session.conn).await?;
                    Ok(rows.iter().map(Logged::read).collect::<Result<_, _>>()?)
                })
            });
            swept.await
        });
        state.sweeping = Some(Sweeping { terms, snapshot: snapshot.clone(), task });
    }

    /// Takes over what a sweep brought, if it is over soon.
    pub(super) async fn end_sweep(&self, state: &mut State, batch: &mut BatchBuilder) -> Result<(), Fault> {
        let Some(sweeping) = &mut state.sweeping else { return Ok(()) };
        let Ok(ended) = tokio::time::timeout(WAIT_MAX, &mut sweeping.task).await else { return Ok(()) };
        let Some(Sweeping { terms, snapshot, .. }) = state.sweeping.take() else { return Ok(()) };
        let rows = joined(ended, "take")??;
        // Behind the last row of a full sweep nothing is known yet, of any lane.
        let cut = (rows.len() >= ROWS_MAX).then(|| rows.last().map_or(0, |row| row.seq));
        let mut of: BTreeMap<i16, Vec<Logged>> = BTreeMap::new();
        for row in rows {
            of.entry(row.lane).or_default().push(row);
        }
        let filter = RouteFilter { filter: &self.route.filter, start_at: state.start_at, now: state.now };
        for (number, term) in terms {
            let Some(lane) = state.lanes.get_mut(&number).filter(|lane| lane.term == term) else { continue };
            let rows = of.remove(&number).unwrap_or_default();
            let position = match cut {
                Some(last) => lane.position.half_swept(&snapshot, last),
                None => lane.position.swept(&snapshot),
            };
            let brought = Brought { lane: number, position, late: rows.len(), rows, complete: false };
            batch.parked.extend(lane.apply(brought, filter));
        }
        Ok(())
    }
}
