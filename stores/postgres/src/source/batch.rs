//! Chooses what a take hands out, within its budget, and what must wait behind an earlier event of its key.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use postroom_core::faults::{self, Fault as Old};
use postroom_core::{Budget, Delivery};
use sqlx::Row as _;

use super::lane::{InFlight, Lane, Parked};
use super::{Shared, State};
use crate::clock::{Time, timestamp};
use crate::database::Kind;
use crate::error::Fault;
use crate::events::Logged;

/// One chosen.
pub(super) struct Chosen {
    handle: i64,
    term: i64,
    attempts: u32,
    ordered: bool,
    logged: Logged,
}

impl Chosen {
    pub(super) fn lane(&self) -> i16 {
        self.logged.lane
    }
}

/// What a take has chosen so far.
pub(super) struct BatchBuilder {
    rows: usize,
    bytes: usize,
    pub(super) chosen: Vec<Chosen>,
    pub(super) parked: Vec<Parked>,
    /// Keys of which this take has parked an event that is not written yet. They stay blocked until the take ends, whatever the
    /// table says: a settle may remove the event that blocked them between two questions of one take.
    parked_keys: HashSet<String>,
}

impl BatchBuilder {
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            rows: budget.rows,
            bytes: budget.bytes,
            chosen: Vec::new(),
            parked: Vec::new(),
            parked_keys: HashSet::new(),
        }
    }

    /// Parks an event behind an earlier one of its key.
    fn park(&mut self, lane: &mut Lane, row: &Logged, now: i64) {
        self.parked_keys.extend(row.event.ordering_key().map(str::to_owned));
        self.parked.push(lane.park(row, now));
    }

    /// Whether this take has parked an event of the key.
    fn has_parked(&self, key: Option<&str>) -> bool {
        !self.parked_keys.is_empty()
            && key.is_some_and(|key| self.parked_keys.contains(key))
            && !faults::is(Old::ParkedIsForgotten)
    }

    /// Whether one of this size still fits; a first one always does.
    fn fits(&mut self, size: usize) -> bool {
        if self.rows == 0 || (!self.chosen.is_empty() && size > self.bytes) {
            return false;
        }
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(size);
        true
    }

    pub(super) fn has_room(&self) -> bool {
        self.rows > 0 && (self.chosen.is_empty() || self.bytes > 0)
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Chooses a first delivery, if it fits.
    fn choose(&mut self, lane: &Lane, logged: Logged) -> Result<(), Logged> {
        if !self.fits(logged.bytes()) {
            return Err(logged);
        }
        self.chosen.push(Chosen { handle: logged.seq, term: lane.term, attempts: 0, ordered: true, logged });
        Ok(())
    }
}

impl Shared {
    /// Hands out what was seen before and is in nobody's hands. Says whether all of it found a place.
    pub(super) async fn again(
        &self,
        state: &mut State,
        lanes: &[i16],
        batch: &mut BatchBuilder,
    ) -> Result<bool, Fault> {
        let mut doubtful = Vec::new();
        for number in lanes {
            let Some(lane) = state.lanes.get(number) else { continue };
            let rows = lane.again.values().filter(|row| lane.may_block(row.event.ordering_key()));
            doubtful.extend(rows.filter_map(|row| Some((row.event.ordering_key()?.to_owned(), row.seq))));
        }
        let blocked = self.blocked(doubtful).await?;
        let mut all = true;
        for number in lanes {
            let Some(lane) = state.lanes.get_mut(number) else { continue };
            for (seq, row) in std::mem::take(&mut lane.again) {
                if blocked.contains(&seq) || batch.has_parked(row.event.ordering_key()) {
                    batch.park(lane, &row, state.now);
                } else if !all {
                    lane.again.insert(seq, row);
                } else if let Err(row) = batch.choose(lane, row) {
                    all = false;
                    lane.again.insert(seq, row);
                }
            }
        }
        Ok(all)
    }

    /// Hands out parked deliveries whose time has come, `share` at most. Says whether all of them fit.
    pub(super) async fn due(
        &self,
        state: &mut State,
        lanes: Vec<i16>,
        share: usize,
        batch: &mut BatchBuilder,
    ) -> Result<bool, Fault> {
        let mut share = share.min(batch.rows);
        if share == 0 || !batch.has_room() {
            return Ok(false);
        }
        let chosen = batch.chosen.iter().map(|one| one.handle);
        let in_hand: Vec<i64> =
            state.out.keys().copied().chain(chosen).filter(|handle| *handle < 0).map(|handle| -handle).collect();
        // Of each lane its share and one more, which tells whether there is more.
        let limit = share.min(super::take::ROWS_MAX) / lanes.len().max(1) + 1;
        let (route, text, now) = (self.route.name.clone(), Arc::clone(&self.texts.due), state.now);
        let rows = self
            .inner
            .db
            .attempt("take", Kind::Statements, move |session| {
                Box::pin(async move {
                    let statement = session.sql.query_made(text).bind(route).bind(lanes).bind(Time(now)).bind(in_hand);
                    let statement =
                        statement.bind(i64::try_from(limit).unwrap_or(i64::MAX)).bind(super::ownership::INLINE);
                    Ok(statement.fetch_all(&mut *session.conn).await?)
                })
            })
            .await?;
        let mut found: BTreeMap<i16, usize> = BTreeMap::new();
        for row in &rows {
            let logged = Logged::read(row)?;
            let Some(lane) = state.lanes.get(&logged.lane) else { continue };
            *found.entry(logged.lane).or_default() += 1;
            if share == 0 || !batch.fits(logged.bytes()) {
                return Ok(false);
            }
            share -= 1;
            batch.chosen.push(Chosen {
                handle: -row.try_get::<i64, _>(20)?,
                term: lane.term,
                attempts: row.try_get::<i32, _>(21)?.unsigned_abs(),
                ordered: row.try_get(22)?,
                logged,
            });
        }
        Ok(found.values().all(|found| *found < limit))
    }

    /// Hands out what was read, of each lane about as much as of the others: that keeps them equally far, and they can be
    /// read together. Says whether all of it found a place.
    pub(super) async fn ready(
        &self,
        state: &mut State,
        lanes: &[i16],
        batch: &mut BatchBuilder,
    ) -> Result<bool, Fault> {
        let mut doubtful = Vec::new();
        for number in lanes {
            let Some(lane) = state.lanes.get(number) else { continue };
            // As many as may be outgoing at once, and not one more: the rest is asked about when its turn comes.
            let rows = lane.ready.iter().take(batch.rows()).filter(|row| lane.may_block(row.event.ordering_key()));
            doubtful.extend(rows.filter_map(|row| Some((row.event.ordering_key()?.to_owned(), row.seq))));
        }
        let asked: HashSet<i64> = doubtful.iter().map(|(_, seq)| *seq).collect();
        let blocked = self.blocked(doubtful).await?;
        let answers = Answers { asked, blocked };
        let mut all = true;
        let mut open: Vec<i16> = lanes.to_vec();
        while !open.is_empty() {
            let share = (batch.rows() / open.len()).max(1);
            open.retain(|number| {
                let Some(lane) = state.lanes.get_mut(number) else { return false };
                let left = answers.take_from(lane, share, state.now, batch);
                all &= left != Remainder::NoPlace;
                left == Remainder::More
            });
        }
        Ok(all)
    }

    /// Which of these numbers an earlier event of their key blocks.
    async fn blocked(&self, doubtful: Vec<(String, i64)>) -> Result<HashSet<i64>, Fault> {
        if doubtful.is_empty() {
            return Ok(HashSet::new());
        }
        let (keys, numbers): (Vec<String>, Vec<i64>) = doubtful.into_iter().unzip();
        let route = self.route.name.clone();
        let rows = self
            .inner
            .db
            .attempt("take", Kind::Statements, move |session| {
                Box::pin(async move {
                    let statement = session.sql.query(include_str!("../sql/blocked.sql")).bind(route).bind(keys);
                    Ok(statement.bind(numbers).fetch_all(&mut *session.conn).await?)
                })
            })
            .await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Loads payloads that were too large to come along, unless they are over the limits.
    pub(super) async fn load(&self, chosen: &mut [Chosen]) -> Result<(), Fault> {
        let limits = self.inner.limits;
        let missing = chosen.iter_mut().filter_map(|one| one.logged.must_load(limits).then_some(&one.logged));
        let (lanes, numbers): (Vec<i16>, Vec<i64>) = missing.map(|logged| (logged.lane, logged.seq)).unzip();
        if numbers.is_empty() {
            return Ok(());
        }
        let rows = self
            .inner
            .db
            .attempt("take", Kind::Statements, move |session| {
                Box::pin(async move {
                    let statement = session.sql.query(include_str!("../sql/load.sql")).bind(lanes).bind(numbers);
                    Ok(statement.fetch_all(&mut *session.conn).await?)
                })
            })
            .await?;
        for row in &rows {
            let (seq, payload): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            let payload = Bytes::copy_from_slice(payload);
            for one in chosen.iter_mut().filter(|one| one.logged.seq == seq && one.logged.missing.is_some()) {
                one.logged.loaded(payload.clone(), limits);
            }
        }
        if let Some(one) = chosen.iter().find(|one| one.logged.missing.is_some()) {
            let message = format!("event {} is no longer in the log, though it is not settled", one.logged.event.id);
            return Err(sqlx::Error::Decode(message.into()).into());
        }
        Ok(())
    }
}

/// What the table said of keys that may be blocked.
struct Answers {
    asked: HashSet<i64>,
    blocked: HashSet<i64>,
}

/// Remainder of a lane after a batch.
#[derive(PartialEq, Eq)]
enum Remainder {
    Nothing,
    More,
    /// The next one finds no place, or was not asked about.
    NoPlace,
}

impl Answers {
    /// Hands out up to `share` of what was read of a lane.
    fn take_from(&self, lane: &mut Lane, share: usize, now: i64, batch: &mut BatchBuilder) -> Remainder {
        for _ in 0..share {
            let Some(row) = lane.ready.pop_front() else { return Remainder::Nothing };
            let asked = self.asked.contains(&row.seq);
            if self.blocked.contains(&row.seq) || batch.has_parked(row.event.ordering_key()) {
                if faults::is(Old::FollowersStopTheLane) {
                    lane.ready.push_front(row);
                    return Remainder::NoPlace;
                }
                batch.park(lane, &row, now);
                continue;
            }
            if !asked && lane.may_block(row.event.ordering_key()) {
                lane.ready.push_front(row);
                return Remainder::NoPlace;
            }
            if asked && let Some(key) = row.event.ordering_key() {
                // It is later than every parked event of its key, and the table has none; nor has this take.
                lane.unblocks(key);
            }
            if let Err(row) = batch.choose(lane, row) {
                lane.ready.push_front(row);
                return Remainder::NoPlace;
            }
        }
        Remainder::More
    }
}

/// Returns the deliveries for the engine, and the records of them that the source keeps.
pub(super) fn outgoing(chosen: Vec<Chosen>) -> (Vec<Delivery>, Vec<(i64, InFlight)>) {
    let mut out = Vec::with_capacity(chosen.len());
    let deliveries = chosen
        .into_iter()
        .map(|one| {
            let Chosen { handle, term, attempts, ordered, logged } = one;
            let delivery = Delivery {
                handle,
                lane: postroom_core::LaneTerm { lane: logged.lane.unsigned_abs().into(), term },
                event: Arc::clone(&logged.event),
                position: Some(logged.seq),
                attempts,
                ordered,
                appended_at: timestamp(logged.appended_at),
                refused: logged.refused.clone(),
            };
            out.push((handle, InFlight { lane: logged.lane, row: (handle > 0).then_some(logged) }));
            delivery
        })
        .collect();
    (deliveries, out)
}

#[cfg(test)]
mod tests {
    use postroom_core::Event;

    use super::super::lane::Counts;
    use super::super::position::Position;
    use super::*;

    fn row(seq: i64, key: &str) -> Logged {
        let event = Arc::new(Event::new("t").key(key));
        Logged { lane: 0, seq, tx: 1, appended_at: 0, event, missing: None, refused: None }
    }

    /// Event 79 of key k was read late and parked behind an earlier one. A settle has removed that one since, so the table says
    /// that 80 may go: it must not, because 79 is not written yet.
    #[test]
    fn a_key_that_this_take_has_parked_is_blocked_until_the_take_ends_whatever_the_table_says() {
        let mut batch = BatchBuilder::new(Budget { rows: 10, bytes: 1 << 20 });
        let mut lane = Lane::taken(0, 1, Position::default(), Counts::default());
        lane.ready.extend([row(80, "k"), row(81, "free"), row(82, "k")]);
        batch.park(&mut lane, &row(79, "k"), 0);
        let answers = Answers { asked: [80, 82].into(), blocked: HashSet::new() };
        assert!(answers.take_from(&mut lane, 10, 0, &mut batch) == Remainder::Nothing);
        let parked: Vec<i64> = batch.parked.iter().map(|one| one.seq).collect();
        let chosen: Vec<i64> = batch.chosen.iter().map(|one| one.logged.seq).collect();
        assert_eq!((parked, chosen), (vec![79, 80, 82], vec![81]));
    }
}
