//! Counts, beside the work, whether the lane has seen every event up to its position: a relay notices by itself when events were
//! passed or removed, whatever the reason.
//!
//! The rows up to the position, in the log or pruned, must be as many as the lane has seen and found when its route started. A lane
//! that was just taken is counted from its first row on, in steps with pauses between them. Once that agrees, only what the
//! position has moved over since is counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::StoreError;
use sqlx::Row;
use tokio::task::JoinHandle;

use super::Shared;
use crate::clock::span;
use crate::store::Inner;

/// How often the lane is counted.
const EVERY: Duration = Duration::from_secs(30);
/// How many numbers one step counts.
const STEP: i64 = 100_000;
/// A step is followed by a pause of so many times its own length: others want to read, too.
const PAUSES: u32 = 3;

/// Where the lane stood when a count began.
#[derive(Debug, Clone, Copy)]
struct Place {
    term: i64,
    hwm: i64,
    seen: i64,
}

/// What came of a count.
#[derive(Debug)]
struct Answer {
    place: Place,
    /// How many rows there are, and how many there should be.
    rows: i64,
    expected: i64,
}

/// A count on its way and what counts have found.
#[derive(Debug, Default)]
pub(super) struct Verification {
    task: Option<JoinHandle<Result<Option<Answer>, StoreError>>>,
    began: Option<i64>,
    /// Where the lane was last counted and agreed.
    counted: Option<Place>,
    /// The term under which counts differ, and how, in words.
    differs: Option<(i64, String)>,
}

impl Shared {
    /// Takes over what a count has found, and begins the next one when it is time. Says which counts differ, in words.
    pub(super) async fn differs(&self, term: i64) -> Option<String> {
        let mut guard = self.verification.lock().await;
        let verification = &mut *guard;
        if verification.task.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(task) = verification.task.take()
        {
            // Otherwise events were pruned meanwhile, the file did not answer, or the process ends.
            if let Ok(Ok(Some(answer))) = task.await {
                verification.counted(&answer);
            }
        }
        verification.counted = verification.counted.filter(|counted| counted.term == term);
        verification.differs = verification.differs.take().filter(|(of, _)| *of == term);
        let now = self.inner.now();
        let due = verification.began.is_none_or(|began| (now - began).abs() >= span(EVERY));
        if due
            && verification.task.is_none()
            && let Some(place) = self.place(term)
        {
            let (inner, route, before) = (Arc::clone(&self.inner), self.route.name.clone(), verification.counted);
            verification.task = Some(tokio::spawn(async move { count(&inner, route, place, before).await }));
            verification.began = Some(now);
        }
        verification.differs.as_ref().map(|(_, words)| words.clone())
    }

    /// Where the lane stands, if it is ours and no take is at work on it.
    fn place(&self, term: i64) -> Option<Place> {
        let state = self.state.try_lock().ok()?;
        let owned = state.owned.as_ref().filter(|owned| owned.term == term && state.unsure.is_none())?;
        Some(Place { term, hwm: owned.position.hwm, seen: owned.position.seen })
    }
}

impl Verification {
    fn counted(&mut self, answer: &Answer) {
        let Answer { place, rows, expected } = answer;
        if rows == expected {
            (self.counted, self.differs) = (Some(*place), None);
            return;
        }
        let words = format!(
            "counts_differ: there are {rows} events up to the position, but {expected} are accounted for; \
             `postroom verify` shows the counts"
        );
        self.differs = Some((place.term, words));
    }
}

/// Rows above `after` and up to `upto`, with what stands beside them under the same snapshot.
struct RowRange {
    rows: i64,
    pruned: i64,
    base: i64,
    /// The first number there is.
    first: i64,
}

/// How many rows of the log are numbered above ?2 and up to ?3; with the number of pruned ones, the base of the route
/// (?1) and the first number there is. A range of the primary key.
const ROW_RANGE: &str = "
    select (select count(*) from postroom_log where seq > ?2 and seq <= ?3) as rows,
      (select value from postroom_meta where name = 'pruned') as pruned,
      (select base from postroom_checkpoint where route = ?1 and lane = 0) as base,
      (select coalesce(min(seq), 1) from postroom_log) as first";

async fn stretch(inner: &Inner, route: &str, after: i64, upto: i64) -> Result<RowRange, StoreError> {
    let route = route.to_owned();
    inner
        .db
        .look("verify", move |conn| {
            Box::pin(async move {
                let row = sqlx::query(ROW_RANGE).bind(route).bind(after).bind(upto);
                let row = row.fetch_one(conn).await?;
                Ok(RowRange {
                    rows: row.try_get("rows")?,
                    pruned: row.try_get("pruned")?,
                    base: row.try_get("base")?,
                    first: row.try_get("first")?,
                })
            })
        })
        .await
}

/// Counts the lane; no answer when events were pruned meanwhile.
async fn count(
    inner: &Inner,
    route: String,
    place: Place,
    before: Option<Place>,
) -> Result<Option<Answer>, StoreError> {
    if let Some(before) = before {
        let new = stretch(inner, &route, before.hwm, place.hwm).await?;
        // What is gone by now was counted by retention.
        let rows = if new.first > before.hwm + 1 { place.seen - before.seen } else { new.rows };
        return Ok(Some(Answer { place, rows: before.seen + new.base + rows, expected: new.base + place.seen }));
    }
    let RowRange { pruned, base, first, .. } = stretch(inner, &route, 0, 0).await?;
    let (mut after, mut rows) = (first - 1, 0);
    while after < place.hwm {
        let (began, upto) = (Instant::now(), after.saturating_add(STEP).min(place.hwm));
        let step = stretch(inner, &route, after, upto).await?;
        if step.pruned != pruned {
            return Ok(None);
        }
        rows += step.rows;
        after = upto;
        if after < place.hwm {
            tokio::time::sleep(began.elapsed() * PAUSES).await;
        }
    }
    Ok(Some(Answer { place, rows: rows + pruned, expected: base + place.seen }))
}
