//! Reads on in the log: where the position rule meets the lanes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use postroom_core::faults::{self, Fault as Old};
use sqlx::Row as _;

use super::batch::BatchBuilder;
use super::lane::{Lane, RouteFilter};
use super::partitions::Partitions;
use super::read::{self, Brought, Moment, Question, Texts, Window};
use super::{LeftOut, Reader, Reading, Shared, State};
use crate::database::{Kind, joined};
use crate::error::Fault;
use crate::events::{COLUMNS, Logged};

/// Most and fewest fresh rows per lane and read.
const READ_ROWS: RangeInclusive<usize> = 64..=1024;

/// Most rows of each lane that one look at a partition of the past brings.
const PASSED_ROWS: i64 = 1_000;

/// Most bytes of payloads that one read may bring; what is larger than its share is loaded when it is handed out.
const READ_BYTES: usize = 32 << 20;

/// How far a route reads at once. The routes of a store share what one would have alone: it is all in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Most fresh rows per lane.
    rows: usize,
    bytes: usize,
}

impl Reach {
    fn of(routes: usize) -> Self {
        let routes = routes.max(1);
        Self { rows: (READ_ROWS.end() / routes).max(*READ_ROWS.start()), bytes: READ_BYTES / routes }
    }

    /// Numbers of a window, in which there are rows of all lanes.
    fn numbers(self) -> usize {
        self.rows * 8
    }

    /// With fewer rows in it a window is not worth another one.
    fn window_rows_min(self) -> usize {
        self.numbers() / 16
    }

    /// Largest payload that comes along with so many rows.
    fn inline(self, rows: usize) -> i32 {
        i32::try_from((self.bytes / rows.max(1)).clamp(1024, 8192)).unwrap_or(8192)
    }
}

impl State {
    /// The lanes to read on in, if one of them has fewer than `low` rows left: all that have room, because lanes are read
    /// together.
    pub(super) fn unread(&self, open: &[i16], low: usize, reach: Reach) -> Vec<i16> {
        let swept = |lane: &Lane| self.sweeping.as_ref().is_none_or(|sweeping| !sweeping.concerns(lane.number));
        let goes_on = |lane: &&Lane| open.contains(&lane.number) && !lane.complete && swept(lane);
        let lanes: Vec<&Lane> = self.lanes.values().filter(goes_on).collect();
        if !lanes.iter().any(|lane| lane.again.is_empty() && lane.ready.len() < low) {
            return Vec::new();
        }
        let room = |lane: &&&Lane| lane.ready.len() < reach.rows;
        lanes.iter().filter(room).map(|lane| lane.number).collect()
    }
}

impl Shared {
    /// Goes on in some lanes, with what other routes have read just now or by a read; says how many rows came.
    pub(super) async fn go_on(
        &self,
        state: &mut State,
        lanes: &[i16],
        batch: &mut BatchBuilder,
    ) -> Result<usize, Fault> {
        if let Some(ahead) = state.ahead.take() {
            let read: Vec<i16> = ahead.terms.keys().copied().collect();
            let seen = self.end_read(state, ahead, batch).await?;
            // It began before this take did: what has come since is not in it.
            for lane in state.lanes.values_mut().filter(|lane| read.contains(&lane.number)) {
                (lane.shared, lane.complete) = (seen > 0, lane.complete && seen > 0);
            }
            if seen > 0 {
                return Ok(seen);
            }
        }
        let filter = RouteFilter { filter: &self.route.filter, start_at: state.start_at, now: state.now };
        let (mut alone, mut seen) = (Vec::new(), 0);
        for number in lanes {
            let Some(lane) = state.lanes.get_mut(number) else { continue };
            let shared = match &lane.seen {
                Some(seen) if self.shares() => {
                    self.inner.tail.share(*number, lane.position.hwm, seen, self.inner.wake.given())
                }
                _ => None,
            };
            let Some((brought, to)) = shared else {
                alone.push(*number);
                continue;
            };
            seen += brought.rows.len();
            batch.parked.extend(lane.apply(brought, filter));
            (lane.seen, lane.shared) = (Some(to), true);
        }
        if !alone.is_empty() {
            seen += self.read(state, &alone, batch).await?;
        }
        Ok(seen)
    }

    pub(super) fn reach(&self) -> Reach {
        Reach::of(self.inner.change_probe.routes())
    }

    /// Whether there are other routes to share reads with. Tests with a clock of their own see everything at once.
    fn shares(&self) -> bool {
        self.inner.clock().is_none() && self.inner.change_probe.routes() > 1
    }

    /// Reads on in some lanes; says how many rows came.
    async fn read(&self, state: &mut State, lanes: &[i16], batch: &mut BatchBuilder) -> Result<usize, Fault> {
        let rows = batch.rows().clamp(*READ_ROWS.start(), self.reach().rows);
        let begun = self.begin_read(state, lanes, rows);
        self.end_read(state, begun, batch).await
    }

    /// Begins to read on behind what waits to be handed out, if there is more: the server works while the engine does.
    pub(super) fn read_ahead(&self, state: &mut State, open: &[i16]) {
        let reach = self.reach();
        let lanes = state.unread(open, reach.rows / 2, reach);
        if state.ahead.is_none() && !lanes.is_empty() {
            state.ahead = Some(self.begin_read(state, &lanes, reach.rows));
        }
    }

    fn begin_read(&self, state: &mut State, lanes: &[i16], rows: usize) -> Reading {
        let begun = self.inner.tail.begin(self.inner.wake.given());
        let lanes: Vec<&Lane> = lanes.iter().filter_map(|number| state.lanes.get(number)).collect();
        let positions: Vec<_> = lanes.iter().map(|lane| (lane.number, lane.position.clone())).collect();
        let reach = self.reach();
        let numbers = i64::try_from(reach.numbers()).unwrap_or(i64::MAX);
        let window = if state.sparse { None } else { Window::of(&positions, numbers, state.end) };
        let windowed = window.is_some();
        let question = Question {
            inline: reach.inline(lanes.len() * rows),
            lanes: positions,
            rows: i64::try_from(rows).unwrap_or(i64::MAX),
            window,
            clock: self.inner.clock(),
            drawn: state.end,
            partitioning: *self.inner.partitioning,
        };
        let terms = lanes.iter().map(|lane| (lane.number, lane.term)).collect();
        let (sql, partitioning) = (&self.inner.db.sql, *self.inner.partitioning);
        let reader = state.reader.get_or_insert_with(|| Reader {
            partitions: Partitions::all(partitioning.partitions, partitioning.segment),
            texts: Texts::of(sql, 0..partitioning.partitions),
        });
        let (inner, text) = (Arc::clone(&self.inner), reader.texts.form(&question));
        let partitions = reader.partitions.clone();
        let task = tokio::spawn(async move {
            let read = inner.db.attempt("take", Kind::Statements, move |session| {
                Box::pin(async move { read::read(session, text, &question).await })
            });
            read.await
        });
        Reading { begun, terms, partitions, windowed, task }
    }

    /// Takes over what a read brought; says how many rows came.
    async fn end_read(&self, state: &mut State, reading: Reading, batch: &mut BatchBuilder) -> Result<usize, Fault> {
        let Reading { begun, terms, partitions, windowed, task } = reading;
        let (moment, brought) = joined(task.await, "take")??;
        if state.server.is_some_and(|server| !server.is(moment.started)) {
            return Err(Fault::ServerChanged);
        }
        if !partitions.covered(moment.segment) {
            // Nothing was read for more than a segment, or the clock has jumped: the partitions that were left out may hold
            // numbers above the positions by now. The read is thrown away, and the next one leaves nothing out.
            state.begin_anew();
            return Ok(1 + self.passed(state, batch).await?);
        }
        let filter = RouteFilter { filter: &self.route.filter, start_at: state.start_at, now: state.now };
        let now_seen = self.inner.tail.end(begun, moment.snapshot.clone());
        let mut count = 0;
        for one in brought {
            let term = terms.get(&one.lane).copied();
            let Some(lane) = state.lanes.get_mut(&one.lane).filter(|lane| Some(lane.term) == term) else { continue };
            let before = std::mem::replace(&mut lane.seen, one.complete.then(|| now_seen.clone()));
            if let (Some(before), true) = (before, one.complete && self.shares()) {
                self.inner.tail.offer(begun, before, now_seen.clone(), &one);
            }
            count += one.rows.len();
            batch.parked.extend(lane.apply(one, filter));
        }
        // Where there are few numbers, only going through the index finds the next ones.
        state.sparse = windowed && count < self.reach().window_rows_min();
        self.begin_sweep(state, &moment.snapshot);
        if partitions.follows(moment.segment) && !partitions.check_is_due() {
            self.leave_out(state, &moment).await?;
        } else {
            state.begin_anew();
        }
        Ok(count + self.passed(state, batch).await?)
    }

    /// Leaves partitions out that have nothing left for our lanes.
    async fn leave_out(&self, state: &mut State, moment: &Moment) -> Result<(), Fault> {
        let Some(reader) = &mut state.reader else { return Ok(()) };
        let before: Vec<i16> = reader.partitions.open().collect();
        if let Some(partition) = reader.partitions.note(moment.segment, &moment.snapshot) {
            let text = include_str!("../sql/greatest.sql").replace("{partition}", &partition.to_string());
            let text: Arc<str> = self.inner.db.sql.made(&text).into();
            let numbers: Vec<i16> = state.lanes.keys().copied().collect();
            let rows = self
                .inner
                .db
                .attempt("take", Kind::Statements, move |session| {
                    Box::pin(async move {
                        Ok(session.sql.query_made(text).bind(numbers).fetch_all(&mut *session.conn).await?)
                    })
                })
                .await?;
            let number =
                |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get::<Option<i64>, _>(1)?.unwrap_or(0)));
            reader.partitions.learn(partition, rows.iter().map(number).collect::<Result<_, sqlx::Error>>()?);
        }
        let positions: Vec<_> = state.lanes.values().map(|lane| (lane.number, &lane.position)).collect();
        reader.partitions.leave_out(&positions);
        if !reader.partitions.open().eq(before) {
            reader.texts = Texts::of(&self.inner.db.sql, reader.partitions.open());
        }
        Ok(())
    }

    /// Reads events that were appended to partitions while they were left out, and so were passed; says how many. That takes a
    /// clock that jumped ahead and back between two reads.
    async fn passed(&self, state: &mut State, batch: &mut BatchBuilder) -> Result<usize, Fault> {
        let mut passed = 0;
        while let Some((partition, mut left_out)) = state.unchecked.pop() {
            if faults::is(Old::ReadCountsAsPassed) {
                for (number, (_, hwm)) in &mut left_out {
                    *hwm = state.lanes.get(number).map_or(0, |lane| lane.position.hwm);
                }
            }
            passed += self.passed_in(state, partition, left_out, batch).await?;
        }
        Ok(passed)
    }

    async fn passed_in(
        &self,
        state: &mut State,
        partition: i16,
        mut left_out: LeftOut,
        batch: &mut BatchBuilder,
    ) -> Result<usize, Fault> {
        let columns = format!("{COLUMNS}, case when octet_length(l.payload) <= $5 then l.payload end");
        let text = include_str!("../sql/passed.sql").replace("{partition}", &partition.to_string());
        let text: Arc<str> = self.inner.db.sql.made(&text.replace("{columns}", &columns)).into();
        let mut passed = 0;
        loop {
            let lanes: Vec<i16> = left_out.keys().copied().collect();
            let (numbers, hwms): (Vec<i64>, Vec<i64>) = left_out.values().copied().unzip();
            let text = Arc::clone(&text);
            let rows = self
                .inner
                .db
                .attempt("take", Kind::Statements, move |session| {
                    Box::pin(async move {
                        let statement = session.sql.query_made(text).bind(lanes).bind(numbers).bind(hwms);
                        let statement = statement.bind(PASSED_ROWS).bind(super::ownership::INLINE);
                        Ok(statement.fetch_all(&mut *session.conn).await?)
                    })
                })
                .await?;
            if rows.is_empty() {
                return Ok(passed);
            }
            let before = std::mem::take(&mut left_out);
            let filter = RouteFilter { filter: &self.route.filter, start_at: state.start_at, now: state.now };
            for row in &rows {
                let row = Logged::read(row)?;
                left_out.extend(before.get(&row.lane).map(|(_, hwm)| (row.lane, (row.seq, *hwm))));
                let Some(lane) = state.lanes.get_mut(&row.lane) else { continue };
                if lane.position.is_unseen(row.tx, row.seq) {
                    continue;
                }
                passed += 1;
                let (number, position) = (row.lane, lane.position.clone());
                let one = Brought { lane: number, position, rows: vec![row], late: 1, complete: lane.complete };
                batch.parked.extend(lane.apply(one, filter));
            }
            tracing::warn!(
                store = self.inner.name,
                route = self.route.name,
                partition,
                events = passed,
                "events were appended to an earlier partition because the server's clock was moved; they are delivered now"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_share_what_one_would_read_and_each_reads_some() {
        let one = Reach::of(1);
        assert_eq!((one.rows, one.numbers(), one.window_rows_min()), (1024, 8192, 512));
        let five = Reach::of(5);
        assert_eq!((five.rows, five.numbers()), (204, 1632));
        assert_eq!(one.inline(16 * one.rows), 2048);
        assert_eq!(five.inline(16 * five.rows), 2056);
        assert_eq!(Reach::of(1000).rows, 64);
        assert_eq!(Reach::of(0).rows, 1024, "a route that has just left");
    }
}
