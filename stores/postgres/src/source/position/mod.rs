//! The position rule: why a read by number neither skips a late commit nor waits for one.
//!
//! Everything up to number `hwm` has been seen, except what the transactions in `pending` may still commit above their
//! `lo`. Whoever appends takes a transaction id *before* a number, so at every read the holder of a number ≤ `hwm` is
//! visible, running (then it is in `pending`), or rolled back. Nothing is timed out and nothing is guessed.
//!
//! Pure arithmetic; the statement that feeds it is in `read`, every interleaving of small cases in `model`.

#[cfg(test)]
mod model;

use std::collections::BTreeMap;

use postroom_core::faults::{self, Fault};

/// How many numbers below `hwm` a read looks for what pending transactions have committed since. Rows of those that may lie
/// further below are found by their transaction: that costs the same however many numbers lie between.
pub(crate) const NEAR: i64 = 50_000;

/// What a lane has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    pub(crate) hwm: i64,
    /// Transaction → the number up to which it can have nothing unseen.
    pub(crate) pending: BTreeMap<i64, i64>,
    /// The last number that had been drawn before the read that led here took its snapshot; 0 when that is not known. A
    /// transaction that began after that read has only numbers above it. Not written down: a new owner begins without it.
    pub(crate) drawn: i64,
}

impl Position {
    /// Where a read that threw its rows away has got to: the start of a route that begins now.
    pub(crate) fn at_start(hwm: i64, snapshot: &Snapshot) -> Self {
        Self { hwm, pending: snapshot.running().map(|x| (x, 0)).collect(), drawn: 0 }
    }

    /// After a read that swept all that had ended, and brought fresh rows up to `last`. `drawn` is a number that had been drawn
    /// before the read took its snapshot.
    pub(crate) fn advanced(&self, snapshot: &Snapshot, last: Option<i64>, drawn: i64) -> Self {
        // A newcomer took its id after the read before this one, so all its numbers are above that one's hwm, and above every
        // number that had been drawn before it.
        let lo = self.hwm.max(if faults::is(Fault::DrawnTooLate) { drawn } else { self.drawn });
        let pending = snapshot.running().map(|x| (x, self.pending.get(&x).copied().unwrap_or(lo))).collect();
        Self { hwm: last.unwrap_or(self.hwm).max(self.hwm), pending, drawn }
    }

    /// After a read that swept what had ended only up to the number `swept`, and so brought nothing fresh.
    pub(crate) fn half_swept(&self, snapshot: &Snapshot, swept: i64) -> Self {
        let keep = |(x, lo): (&i64, &i64)| (*x, if snapshot.has_ended(*x) { swept.max(*lo) } else { *lo });
        Self { hwm: self.hwm, pending: self.pending.iter().map(keep).collect(), drawn: self.drawn }
    }

    /// The pending transactions that have ended by then, with their los.
    pub(crate) fn ended<'p>(&'p self, snapshot: &'p Snapshot) -> impl Iterator<Item = (i64, i64)> + 'p {
        self.pending.iter().filter(|(x, _)| snapshot.has_ended(**x)).map(|(x, lo)| (*x, *lo))
    }

    /// Whether one of them may have committed so far below `hwm` that its rows must be looked for by transaction, not by number.
    pub(crate) fn needs_sweep(&self, snapshot: &Snapshot) -> bool {
        self.ended(snapshot).any(|(_, lo)| self.hwm.saturating_sub(lo) > NEAR)
    }

    /// After a sweep that brought all rows up to `hwm` of those that had ended by then.
    pub(crate) fn swept(&self, snapshot: &Snapshot) -> Self {
        let keep = |(x, _): &(&i64, &i64)| !snapshot.has_ended(**x);
        Self { pending: self.pending.iter().filter(keep).map(|(x, lo)| (*x, *lo)).collect(), ..*self }
    }

    /// Whether a row may still have to be read, though its number is not above `hwm`.
    pub(crate) fn is_unseen(&self, tx: i64, seq: i64) -> bool {
        seq > self.hwm || self.pending.get(&tx).is_some_and(|lo| seq > *lo)
    }
}

/// Which transactions had ended when a statement looked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot {
    xmin: i64,
    xmax: i64,
    /// Running ones below `xmax`, in order.
    running: Vec<i64>,
    /// How many ids were given out from `xmax` on: assigned, but above the latest completed one and so not in `running`.
    above: i64,
}

impl Snapshot {
    /// Reads `xmin:xmax:x,y,z`.
    pub(crate) fn parse(text: &str, above: i64) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next()?.parse().ok();
        let (xmin, xmax) = (number()?, number()?);
        let list = parts.next()?;
        let mut running = Vec::new();
        for x in list.split(',').filter(|x| !x.is_empty()) {
            running.push(x.parse().ok()?);
        }
        running.sort_unstable();
        Some(Self { xmin, xmax, running, above })
    }

    /// Every transaction that was running.
    pub(crate) fn running(&self) -> impl Iterator<Item = i64> + '_ {
        self.running.iter().copied().chain(self.xmax..self.xmax.saturating_add(self.above.max(0)))
    }

    /// Whether the transaction had ended, one way or the other.
    pub(crate) fn has_ended(&self, x: i64) -> bool {
        x < self.xmin || (x < self.xmax && self.running.binary_search(&x).is_err())
    }

    /// The lowest transaction that had not ended.
    pub(crate) fn xmin(&self) -> i64 {
        self.xmin
    }

    /// The next id to be given out, as far as was known.
    pub(crate) fn next(&self) -> i64 {
        self.xmax.saturating_add(self.above.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_above_the_latest_completed_one_are_running() {
        let snapshot = Snapshot::parse("10:15:10,12", 2).unwrap();
        assert_eq!(snapshot.running().collect::<Vec<_>>(), [10, 12, 15, 16]);
        assert!(snapshot.has_ended(9) && snapshot.has_ended(11) && snapshot.has_ended(14));
        assert!(!snapshot.has_ended(10) && !snapshot.has_ended(15) && !snapshot.has_ended(99));
        assert!(Snapshot::parse("10:15", 0).is_none() && Snapshot::parse("a:b:", 0).is_none());
    }

    #[test]
    fn a_newcomer_begins_where_the_last_read_ended_and_a_known_one_keeps_its_own() {
        let before = Position { hwm: 100, pending: [(7, 40), (8, 90)].into(), drawn: 0 };
        let after = before.advanced(&Snapshot::parse("7:20:7,19", 0).unwrap(), Some(120), 130);
        assert_eq!(after, Position { hwm: 120, pending: [(7, 40), (19, 100)].into(), drawn: 130 });
        assert!(
            after.is_unseen(7, 41) && !after.is_unseen(7, 40) && !after.is_unseen(8, 95) && after.is_unseen(1, 121)
        );
    }

    #[test]
    fn a_newcomer_of_a_lane_far_behind_begins_at_the_last_number_drawn_before_the_read() {
        let before = Position { hwm: 100, pending: BTreeMap::new(), drawn: 9_000 };
        let after = before.advanced(&Snapshot::parse("19:20:19", 0).unwrap(), None, 9_500);
        assert_eq!(after, Position { hwm: 100, pending: [(19, 9_000)].into(), drawn: 9_500 });
    }

    #[test]
    fn a_half_swept_read_moves_only_what_has_ended() {
        let before = Position { hwm: 100, pending: [(7, 40), (8, 90)].into(), drawn: 5 };
        let after = before.half_swept(&Snapshot::parse("8:20:8,19", 0).unwrap(), 60);
        assert_eq!(after, Position { hwm: 100, pending: [(7, 60), (8, 90)].into(), drawn: 5 });
    }

    #[test]
    fn a_transaction_that_was_open_for_long_is_looked_for_by_its_id() {
        let far = Position { hwm: NEAR + 41, pending: [(7, 40), (8, 90)].into(), drawn: 0 };
        assert!(far.needs_sweep(&Snapshot::parse("9:20:", 0).unwrap()));
        assert!(!far.needs_sweep(&Snapshot::parse("7:20:7", 0).unwrap()), "8 lies near enough");
        let after = far.swept(&Snapshot::parse("8:20:8", 0).unwrap());
        assert_eq!(after, Position { hwm: NEAR + 41, pending: [(8, 90)].into(), drawn: 0 });
    }
}
