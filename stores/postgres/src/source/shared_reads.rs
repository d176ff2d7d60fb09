//! Reads at the end of the log, shared by the routes of one relay.
//!
//! A lane whose last read brought everything has seen exactly what was committed in that read's snapshot. If another route
//! then reads the same lane from an earlier snapshot to a later one, what it found holds all that is new to the first: less
//! the rows whose transactions had already ended in its own snapshot. It may take those and the reader's new position, and
//! spare the server a read. A route that lags reads alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::position::{Position, Snapshot};
use super::read::Brought;
use crate::events::Logged;

/// How long what one route has read is good enough for another.
const SHARED_FOR: Duration = Duration::from_millis(5);
/// Reads kept per lane.
const KEPT: usize = 4;
/// Most rows of a read that is kept, and most bytes: larger ones are read again by each route.
const ROWS_MAX: usize = 512;
const BYTES_MAX: usize = 256 << 10;

/// The snapshot in which a lane has seen everything, and when it was taken: in order of the store's own count.
#[derive(Debug, Clone)]
pub(super) struct ReadSnapshot {
    began: u64,
    ended: u64,
    snapshot: Arc<Snapshot>,
}

impl ReadSnapshot {
    /// Whether a snapshot that was taken then certainly held no more than this one.
    fn is_not_before(&self, earlier: &Self) -> bool {
        earlier.ended == self.ended || earlier.ended < self.began
    }
}

/// One complete read of a lane.
#[derive(Debug)]
struct Page {
    from: ReadSnapshot,
    to: ReadSnapshot,
    at: Instant,
    /// How many hints had been given when it began: after another one it is too old.
    hints: u64,
    position: Position,
    rows: Vec<Logged>,
}

/// The reads of a store that routes share.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    count: AtomicU64,
    pages: Mutex<BTreeMap<i16, VecDeque<Arc<Page>>>>,
}

/// A read about to begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    count: u64,
    at: Instant,
    hints: u64,
}

impl Tail {
    /// A read begins.
    pub(super) fn begin(&self, hints: u64) -> Begun {
        Begun { count: self.count.fetch_add(1, Ordering::AcqRel), at: Instant::now(), hints }
    }

    /// The read ended; what lanes that it completed have seen.
    pub(super) fn end(&self, begun: Begun, snapshot: Snapshot) -> ReadSnapshot {
        let ended = self.count.fetch_add(1, Ordering::AcqRel);
        ReadSnapshot { began: begun.count, ended, snapshot: Arc::new(snapshot) }
    }

    /// Offers a complete read of a lane that had seen everything before.
    pub(super) fn offer(&self, begun: Begun, from: ReadSnapshot, to: ReadSnapshot, brought: &Brought) {
        let bytes = brought.rows.iter().fold(0_usize, |sum, row| sum.saturating_add(row.bytes()));
        if brought.rows.len() > ROWS_MAX || bytes > BYTES_MAX {
            return;
        }
        let (position, rows) = (brought.position.clone(), brought.rows.clone());
        let page = Page { from, to, at: begun.at, hints: begun.hints, position, rows };
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        // What is too old to be shared is only in the way, of whatever lane it is.
        for lane in pages.values_mut() {
            lane.retain(|page| page.at.elapsed() < SHARED_FOR);
        }
        let pages = pages.entry(brought.lane).or_default();
        pages.push_back(Arc::new(page));
        if pages.len() > KEPT {
            pages.pop_front();
        }
    }

    /// What another route has read of the lane since, if that can be shared: the rows new to whoever has seen `seen`, which
    /// is at `hwm`.
    pub(super) fn share(
        &self,
        lane: i16,
        hwm: i64,
        seen: &ReadSnapshot,
        hints: u64,
    ) -> Option<(Brought, ReadSnapshot)> {
        let page = {
            let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |page: &&Arc<Page>| {
                page.hints == hints
                    && page.at.elapsed() < SHARED_FOR
                    && seen.is_not_before(&page.from)
                    && page.to.began > seen.ended
            };
            Arc::clone(pages.get(&lane)?.iter().rev().find(fits)?)
        };
        let new = |row: &&Logged| !seen.snapshot.has_ended(row.tx);
        let mut rows: Vec<Logged> = page.rows.iter().filter(new).cloned().collect();
        rows.sort_unstable_by_key(|row| row.seq);
        let late = rows.partition_point(|row| row.seq <= hwm);
        let position = page.position.clone();
        Some((Brought { lane, position, rows, late, complete: true }, page.to.clone()))
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::Event;

    use super::*;

    fn row(seq: i64, tx: i64) -> Logged {
        Logged { lane: 0, seq, tx, appended_at: 0, event: Arc::new(Event::new("t")), missing: None, refused: None }
    }

    fn read(tail: &Tail, snapshot: &str) -> (Begun, ReadSnapshot) {
        let begun = tail.begin(0);
        (begun, tail.end(begun, Snapshot::parse(snapshot, 0).unwrap()))
    }

    fn brought(hwm: i64, rows: Vec<Logged>) -> Brought {
        Brought { lane: 0, position: Position { hwm, ..Position::default() }, rows, late: 0, complete: true }
    }

    #[test]
    fn a_route_takes_what_another_has_read_less_what_it_has_seen_itself() {
        let tail = Tail::default();
        let (_, first) = read(&tail, "10:12:10");
        let (_, mine) = read(&tail, "10:14:10");
        let (begun, last) = read(&tail, "16:16:");
        tail.offer(begun, first, last, &brought(9, vec![row(4, 10), row(7, 13), row(9, 15)]));
        let (shared, _) = tail.share(0, 7, &mine, 0).unwrap();
        let numbers: Vec<i64> = shared.rows.iter().map(|row| row.seq).collect();
        assert_eq!(numbers, [4, 9], "7 was committed by 13, which had ended");
        assert_eq!((shared.late, shared.position.hwm), (1, 9));
    }

    #[test]
    fn large_reads_are_not_kept_and_old_ones_go_with_the_next() {
        let tail = Tail::default();
        let (_, first) = read(&tail, "10:10:");
        let (begun, last) = read(&tail, "12:12:");
        let large = Event::new("t").bytes("text/plain", vec![b'x'; BYTES_MAX]);
        let large = Logged { event: Arc::new(large), ..row(9, 11) };
        tail.offer(begun, first.clone(), last.clone(), &brought(9, vec![large]));
        assert!(tail.share(0, 0, &first, 0).is_none());
        let old = Begun { at: begun.at.checked_sub(SHARED_FOR).unwrap(), ..begun };
        tail.offer(old, first.clone(), last.clone(), &Brought { lane: 1, ..brought(9, vec![row(9, 11)]) });
        tail.offer(begun, first, last, &brought(9, vec![row(9, 11)]));
        let kept: usize = tail.pages.lock().unwrap().values().map(VecDeque::len).sum();
        assert_eq!(kept, 1);
    }

    #[test]
    fn what_was_read_before_or_from_later_on_or_before_a_hint_is_not_shared() {
        let tail = Tail::default();
        let (_, early) = read(&tail, "10:10:");
        let (_, first) = read(&tail, "11:11:");
        let (begun, last) = read(&tail, "12:12:");
        tail.offer(begun, first.clone(), last.clone(), &brought(9, vec![row(9, 11)]));
        assert!(tail.share(0, 0, &early, 0).is_none(), "what came between early and first is not in it");
        assert!(tail.share(0, 0, &last, 0).is_none(), "nothing is new");
        assert!(tail.share(0, 0, &first, 1).is_none(), "somebody said that there is more");
        assert!(tail.share(1, 0, &first, 0).is_none(), "another lane");
        assert!(tail.share(0, 0, &first, 0).is_some());
    }
}
