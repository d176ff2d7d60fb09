//! A lane in our hands: its position, its counts, and the events that are in nobody's hands yet.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use postroom_core::{Filter, LaneTerm};

use super::position::Position;
use super::read::Brought;
use super::shared_reads::ReadSnapshot;
use super::unsettled::Unsettled;
use super::verify::Counted;
use crate::events::Logged;

/// What `base` is of a route that started on a long log, until its rows are counted.
const UNCOUNTED: i64 = -1;

/// Cumulative counts of a lane, as the checkpoint has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) base: i64,
    pub(super) seen: i64,
    pub(super) delivered: i64,
    pub(super) filtered: i64,
    pub(super) parked: i64,
    pub(super) recovered: i64,
    pub(super) replayed: i64,
}

impl Counts {
    /// How many rows there must be up to the position, if it is known.
    pub(super) fn accounted_for(&self) -> Option<i64> {
        (self.base != UNCOUNTED).then_some(self.base + self.seen)
    }

    /// Takes over that there were so many rows when so many had been seen, if that was not known.
    pub(super) fn count_the_rest(&mut self, rows: i64, seen: i64) {
        if self.base == UNCOUNTED {
            self.base = rows - seen;
        }
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, more: Self) {
        self.base += more.base;
        self.seen += more.seen;
        self.delivered += more.delivered;
        self.filtered += more.filtered;
        self.parked += more.parked;
        self.recovered += more.recovered;
        self.replayed += more.replayed;
    }
}

/// A lane we own.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) number: i16,
    pub(super) term: i64,
    pub(super) position: Position,
    pub(super) counts: Counts,
    pub(super) unsettled: Unsettled,
    /// The last row read in its turn, whatever became of it.
    last: Option<i64>,
    /// Rows that were read before and that nobody is sending: a former owner's, or given back. They go before everything else.
    pub(super) again: BTreeMap<i64, Logged>,
    /// Read and not handed out yet, in order.
    pub(super) ready: VecDeque<Logged>,
    /// Keys that an earlier event may block; the table knows. Hashes, because there may be very many.
    blocking: HashSet<u64>,
    /// Whether there were too many of them to list when the lane was taken: the table is asked about every key.
    asks_of_every_key: bool,
    /// Whether the current take has read all there was.
    pub(super) complete: bool,
    /// In which snapshot everything was seen, if the last read brought everything.
    pub(super) seen: Option<ReadSnapshot>,
    /// Whether what was read last was read before this take began, ahead of it or for another route.
    pub(super) shared: bool,
    /// Since when counts differ from what is written.
    pub(super) unwritten_since: Option<i64>,
    /// Up to where its rows were counted.
    pub(super) counted: Option<Counted>,
}

/// An event to be parked.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) lane: i16,
    pub(super) seq: i64,
    pub(super) key: Option<String>,
    /// Its time; `None` waits behind an earlier event of its key.
    pub(super) due: Option<i64>,
}

/// Filter of a route for the rows that are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteFilter<'w> {
    pub(super) filter: &'w Filter,
    /// What was appended before is not for this route.
    pub(super) start_at: Option<i64>,
    pub(super) now: i64,
}

impl Lane {
    /// A lane just taken, at its last owner's position.
    pub(super) fn taken(number: i16, term: i64, position: Position, counts: Counts) -> Self {
        Self { number, term, position, counts, ..Self::default() }
    }

    pub(super) fn lane_term(&self) -> LaneTerm {
        LaneTerm { lane: self.number.unsigned_abs().into(), term: self.term }
    }

    /// Adds what its last owner had not settled, in order; rows of one range follow each other.
    pub(super) fn adopt(&mut self, rows: Vec<Logged>, ranges: &[(i64, i64)]) {
        let mut before: Option<i64> = None;
        for row in rows {
            let range = ranges.iter().find(|(first, last)| (*first..=*last).contains(&row.seq));
            let follows = before.is_some_and(|before| range.is_some_and(|(first, _)| before >= *first));
            self.unsettled.push(row.seq, follows);
            before = Some(row.seq);
            self.again.insert(row.seq, row);
        }
    }

    /// Whether what was not settled agrees with the counts.
    pub(super) fn agrees(&self) -> bool {
        let Counts { seen, delivered, filtered, parked, .. } = self.counts;
        i64::try_from(self.unsettled.len()).is_ok_and(|unsettled| seen == delivered + filtered + parked + unsettled)
    }

    /// Moves the position by what was read and sorts the rows: unwanted ones are counted, delayed ones returned to be put
    /// parked, the others wait to be handed out.
    pub(super) fn apply(&mut self, brought: Brought, filter: RouteFilter<'_>) -> Vec<Parked> {
        let Brought { position, rows, late, complete, .. } = brought;
        (self.position, self.complete) = (position, complete);
        if rows.is_empty() {
            return Vec::new();
        }
        self.unwritten_since.get_or_insert(filter.now);
        let mut parked = Vec::new();
        for (place, row) in rows.into_iter().enumerate() {
            let (seq, is_late) = (row.seq, place < late);
            self.counts.seen += 1;
            let event = &row.event;
            let wanted = filter.start_at.is_none_or(|start| row.appended_at >= start) && filter.filter.matches(event);
            let delayed = event.available_at.map(crate::clock::micros).filter(|at| *at > filter.now);
            if !wanted || delayed.is_some() {
                if is_late {
                    self.unsettled.part(seq);
                }
                if let (true, Some(at)) = (wanted, delayed) {
                    self.counts.parked += 1;
                    parked.push(Parked {
                        lane: self.number,
                        seq,
                        key: event.ordering_key().map(str::to_owned),
                        due: Some(at),
                    });
                } else {
                    self.counts.filtered += 1;
                }
            } else if is_late {
                self.unsettled.insert_late(seq);
                self.again.insert(seq, row);
            } else {
                let follows = self.last.is_some_and(|last| self.unsettled.contains(last));
                self.unsettled.push(seq, follows);
                self.ready.push_back(row);
            }
            if !is_late {
                self.last = Some(seq);
            }
        }
        parked
    }

    /// Takes an event that must wait behind an earlier one of its key out of what is unsettled.
    pub(super) fn park(&mut self, row: &Logged, now: i64) -> Parked {
        self.unsettled.remove(row.seq);
        self.counts.parked += 1;
        self.unwritten_since.get_or_insert(now);
        Parked { lane: self.number, seq: row.seq, key: row.event.ordering_key().map(str::to_owned), due: None }
    }

    /// Whether the table must be asked before an event of this key goes out.
    pub(super) fn may_block(&self, key: Option<&str>) -> bool {
        (self.asks_of_every_key && key.is_some())
            || (!self.blocking.is_empty() && key.is_some_and(|key| self.blocking.contains(&hash(key))))
    }

    /// Remembers that an event of the key stands in the table and blocks it.
    pub(super) fn blocks(&mut self, key: &str) {
        self.blocking.insert(hash(key));
    }

    /// Asks the table about every key from now on.
    pub(super) fn asks_of_every_key(&mut self) {
        self.asks_of_every_key = true;
    }

    /// Forgets a key that turned out to be free.
    pub(super) fn unblocks(&mut self, key: &str) {
        self.blocking.remove(&hash(key));
    }

    /// Whether nothing of it waits here to be handed out.
    pub(super) fn is_empty(&self) -> bool {
        self.again.is_empty() && self.ready.is_empty()
    }
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Event that the engine is delivering.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) lane: i16,
    /// A first delivery, to be given back as it is; `None` for one that stands in the table.
    pub(super) row: Option<Logged>,
}

impl InFlight {
    /// The key whose order it keeps, for a first delivery.
    pub(super) fn key(&self) -> Option<&str> {
        self.row.as_ref().and_then(|row| row.event.ordering_key())
    }
}
