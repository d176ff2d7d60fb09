//! The one statement that reads the log for all lanes of a relay, and what it brings per lane.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::position::{NEAR, Position, Snapshot};
use crate::clock::Time;
use crate::database::Session;
use crate::error::Fault;
use crate::events::{COLUMNS, Logged};
use crate::schema::Partitioning;
use crate::sql::Sql;

/// Most late rows of one read, of all lanes together; the statement asks for one more.
const LATE_MAX: usize = 2_000;

/// Where to read.
#[derive(Debug)]
pub(crate) struct Question {
    /// Lanes with their positions.
    pub(crate) lanes: Vec<(i16, Position)>,
    /// Most fresh rows per lane that is not in the window.
    pub(crate) rows: i64,
    pub(crate) window: Option<Window>,
    /// Largest payload that comes along.
    pub(crate) inline: i32,
    /// The time, unless it is the database's.
    pub(crate) clock: Option<Time>,
    /// A number that had been drawn before the read began.
    pub(crate) drawn: i64,
    pub(crate) partitioning: Partitioning,
}

/// Some lanes that are about equally far and all far from the end, to be read together up to one number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) lanes: Vec<i16>,
    pub(crate) above: i64,
    pub(crate) upto: i64,
}

impl Window {
    /// So many numbers on from the foremost of these lanes, unless the log ends there.
    pub(crate) fn of(lanes: &[(i16, Position)], numbers: i64, end: i64) -> Option<Self> {
        let foremost = lanes.iter().map(|(_, position)| position.hwm).max()?;
        let upto = foremost.saturating_add(numbers);
        let together = || lanes.iter().filter(|(_, position)| position.hwm > foremost - numbers);
        let above = together().map(|(_, position)| position.hwm).min()?;
        (upto < end).then(|| Self { lanes: together().map(|(lane, _)| *lane).collect(), above, upto })
    }
}

/// The statement in its two forms, and the one that looks for late rows by transaction.
#[derive(Debug)]
pub(crate) struct Texts {
    plain: Arc<str>,
    windowed: Arc<str>,
    pub(crate) sweep: Arc<str>,
}

/// When a read looked.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) snapshot: Snapshot,
    /// The segment that was current, counted from the epoch.
    pub(crate) segment: i64,
    /// When the server that was read was started.
    pub(crate) started: i64,
}

/// What a read brought for one lane.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) lane: i16,
    /// The position after it.
    pub(crate) position: Position,
    /// Rows in order of their numbers: first those that were late, then fresh ones.
    pub(crate) rows: Vec<Logged>,
    /// How many of them were late.
    pub(crate) late: usize,
    /// Whether there was nothing more to bring.
    pub(crate) complete: bool,
}

impl Texts {
    /// The statements for these partitions.
    pub(crate) fn of(sql: &Sql, partitions: impl IntoIterator<Item = i16>) -> Self {
        let numbers: Vec<i16> = partitions.into_iter().collect();
        let all = |only: &str| {
            let each: Vec<String> = numbers.iter().map(|n| format!("select * from postroom.log_{n}{only}")).collect();
            each.join(" union all ")
        };
        let columns = format!("{COLUMNS}, case when octet_length(l.payload) <= $7 then l.payload end");
        let made = |text: &str, only: &str| {
            let text = text.replace("{columns}", &columns).replace("{partitions}", &all(only));
            Arc::from(sql.made(&text.replace("{near}", &NEAR.to_string())))
        };
        let read = |apart: &str, together: &str| {
            let text = include_str!("../sql/read.sql").replace("{apart}", apart).replace("{together}", together);
            made(&text, "")
        };
        let windowed = read(" and i.lane <> all($10::int2[])", include_str!("../sql/window.sql"));
        let sweep = made(include_str!("../sql/sweep.sql"), " where tx = any($5::int8[])");
        Self { plain: read("", ""), windowed, sweep }
    }

    /// The form for this question.
    pub(crate) fn form(&self, question: &Question) -> Arc<str> {
        Arc::clone(if question.window.is_some() { &self.windowed } else { &self.plain })
    }
}

/// Reads.
pub(crate) async fn read(
    session: &mut Session,
    text: Arc<str>,
    question: &Question,
) -> Result<(Moment, Vec<Brought>), Fault> {
    let (mut lanes, mut hwms) = (Vec::new(), Vec::new());
    let (mut of, mut pending, mut los) = (Vec::new(), Vec::new(), Vec::new());
    for (lane, position) in &question.lanes {
        lanes.push(*lane);
        hwms.push(position.hwm);
        for (x, lo) in &position.pending {
            of.push(*lane);
            pending.push(*x);
            los.push(*lo);
        }
    }
    let mut statement = session.sql.query_made(text);
    statement = statement
        .bind(lanes)
        .bind(hwms)
        .bind(of)
        .bind(pending)
        .bind(los)
        .bind(question.rows)
        .bind(question.inline)
        .bind(question.clock)
        .bind(question.partitioning.segment);
    if let Some(Window { lanes, above, upto }) = &question.window {
        let mut hwms = vec![None; usize::from(lanes.iter().max().map_or(0, |lane| lane.unsigned_abs())) + 1];
        for (lane, position) in question.lanes.iter().filter(|(lane, _)| lanes.contains(lane)) {
            hwms[usize::from(lane.unsigned_abs())] = Some(position.hwm);
        }
        statement = statement.bind(lanes.clone()).bind(above).bind(upto).bind(hwms);
    }
    let mut found = ReadResult::new(question);
    let mut rows = statement.fetch(&mut *session.conn);
    // Each as it comes: the server goes on meanwhile, and nothing is held twice.
    while let Some(row) = rows.try_next().await? {
        found.add(&row)?;
    }
    Ok(found.sorted(question)?)
}

/// What was read for one lane, before its position is known.
#[derive(Default)]
struct Lane {
    late: Vec<Logged>,
    fresh: Vec<Logged>,
    /// Up to where what has ended was swept, if anything had.
    swept: Option<i64>,
}

/// Rows and snapshot of a read.
struct ReadResult {
    lanes: BTreeMap<i16, (i64, Lane)>,
    snapshot: Option<Snapshot>,
    segment: i64,
    started: i64,
}

impl ReadResult {
    fn new(question: &Question) -> Self {
        let lanes = question.lanes.iter().map(|(lane, position)| (*lane, (position.hwm, Lane::default()))).collect();
        Self { lanes, snapshot: None, segment: 0, started: 0 }
    }

    fn add(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        if row.try_get_unchecked::<Option<i64>, _>(1)?.is_some() {
            let logged = Logged::read(row)?;
            if let Some((hwm, lane)) = self.lanes.get_mut(&logged.lane) {
                let late = logged.seq <= *hwm;
                (if late { &mut lane.late } else { &mut lane.fresh }).push(logged);
            }
        } else if let Some(number) = row.try_get_unchecked::<Option<i16>, _>(0)? {
            if let Some((_, lane)) = self.lanes.get_mut(&number) {
                lane.swept = Some(row.try_get_unchecked(2)?);
            }
        } else {
            self.snapshot = Snapshot::parse(row.try_get_unchecked(7)?, row.try_get_unchecked(2)?);
            self.started = row.try_get_unchecked::<Time, _>(3)?.0;
            let segment = row.try_get_unchecked::<&str, _>(8)?.parse();
            self.segment = segment.map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        }
        Ok(())
    }

    fn sorted(self, question: &Question) -> Result<(Moment, Vec<Brought>), sqlx::Error> {
        let Self { lanes, snapshot, segment, started } = self;
        let snapshot = snapshot.ok_or_else(|| sqlx::Error::Decode("a read came without its snapshot".into()))?;
        let mut lanes: BTreeMap<i16, Lane> = lanes.into_iter().map(|(number, (_, lane))| (number, lane)).collect();
        let all = !cut(&mut lanes);
        let brought = question
            .lanes
            .iter()
            .filter_map(|(number, position)| Some((*number, position, lanes.remove(number)?)))
            .map(|(number, position, lane)| {
                let beyond = question.window.as_ref().is_some_and(|window| window.lanes.contains(&number));
                let limit = Limit { rows: question.rows, may_be_all: all && !beyond };
                brought(number, position, lane, &snapshot, limit, question.drawn)
            })
            .collect();
        Ok((Moment { snapshot, segment, started }, brought))
    }
}

/// Late rows come in order of lane and number, up to a bound: behind it nothing is known of what has ended. Says whether
/// the bound was hit; then nothing fresh was read.
fn cut(lanes: &mut BTreeMap<i16, Lane>) -> bool {
    let mut room = LATE_MAX;
    let total: usize = lanes.values().map(|lane| lane.late.len()).sum();
    if total <= LATE_MAX {
        return false;
    }
    for lane in lanes.values_mut() {
        lane.late.sort_unstable_by_key(|row| row.seq);
        if lane.late.len() < room {
            room -= lane.late.len();
            continue;
        }
        lane.late.truncate(room);
        room = 0;
        if let Some(swept) = &mut lane.swept {
            *swept = lane.late.last().map_or(i64::MIN, |row| row.seq);
        }
    }
    true
}

/// How many fresh rows a read brings of a lane.
#[derive(Clone, Copy)]
struct Limit {
    rows: i64,
    /// Whether fewer than so many are all there are.
    may_be_all: bool,
}

fn brought(lane: i16, before: &Position, read: Lane, snapshot: &Snapshot, limit: Limit, drawn: i64) -> Brought {
    let Lane { late: mut rows, mut fresh, swept } = read;
    // The scan begins at the lowest lo of all that have ended; up to its own, a transaction has nothing unseen.
    rows.retain(|row| before.pending.get(&row.tx).is_some_and(|lo| row.seq > *lo));
    rows.sort_unstable_by_key(|row| row.seq);
    fresh.sort_unstable_by_key(|row| row.seq);
    let late = rows.len();
    if let Some(swept) = swept.filter(|swept| *swept < before.hwm) {
        let position = before.half_swept(snapshot, swept);
        return Brought { lane, position, rows, late, complete: false };
    }
    let complete = limit.may_be_all && i64::try_from(fresh.len()).unwrap_or(i64::MAX) < limit.rows;
    let position = before.advanced(snapshot, fresh.last().map(|row| row.seq), drawn);
    rows.append(&mut fresh);
    Brought { lane, position, rows, late, complete }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hwm: i64) -> Position {
        Position { hwm, ..Position::default() }
    }

    #[test]
    fn a_window_goes_on_from_the_foremost_lane_and_leaves_out_those_far_behind() {
        let lanes = [(0, at(53_000)), (1, at(60_000)), (2, at(10)), (3, at(55_000))];
        let window = Window::of(&lanes, 8_192, 1_000_000).unwrap();
        assert_eq!(window, Window { lanes: vec![0, 1, 3], above: 53_000, upto: 68_192 });
    }

    #[test]
    fn near_the_end_there_is_no_window() {
        assert_eq!(Window::of(&[(0, at(100))], 500, 600), None, "what is above the end is not known");
        assert_eq!(Window::of(&[], 500, 1_000_000), None);
    }
}
