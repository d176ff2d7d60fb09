//! Counts, beside the work, whether a lane has seen every event up to its position: a relay notices by itself when events were
//! passed, whatever the reason.
//!
//! The rows of the lane up to its position, in the log or truncated, must be as many as the lane has seen and found when its route
//! started. Where a route started on a long log, that is not known: the first count finds it out. A lane that was just taken is counted from its first row on, in steps with pauses between them. Once that agrees, only
//! what the position has moved over since is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::Row as _;
use tokio::task::JoinHandle;

use super::lane::Lane;
use super::position::Position;
use super::{Shared, State};
use crate::database::Kind;
use crate::error::Fault;
use crate::store::Inner;

/// How often lanes are counted; more often where segments are shorter.
const EVERY: Duration = Duration::from_secs(30);
/// How many numbers one step counts.
const STEP: i64 = 1_000_000;
/// A step is followed by a pause of so many times its own length: counting takes a fraction of one processor at most.
const PAUSES: u32 = 3;
/// How often a count begins again because rows were truncated meanwhile.
const TRIES: usize = 3;

/// Up to where a lane's rows were counted and agreed.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    position: Position,
    /// Rows that the lane had seen or found when its route started.
    rows: i64,
    truncated: i64,
}

/// A lane to be counted, as it was when the count began.
#[derive(Debug)]
struct Question {
    term: i64,
    position: Position,
    /// How many rows there should be; nobody knows yet of a route that started on a long log.
    rows: Option<i64>,
    /// How many of them the lane has seen itself.
    seen: i64,
    before: Option<Counted>,
}

/// What came of a lane's count.
#[derive(Debug)]
struct Answer {
    term: i64,
    counted: Counted,
    /// How many rows there are.
    rows: i64,
    /// How many of them the lane has seen itself.
    seen: i64,
}

/// Counts on their way and what they have found.
#[derive(Debug, Default)]
pub(super) struct Verification {
    task: Option<JoinHandle<Result<BTreeMap<i16, Answer>, Fault>>>,
    began: Option<Instant>,
    /// Lanes whose counts differ, with the terms under which that was found, in words.
    differences: BTreeMap<i16, (i64, String)>,
}

impl Shared {
    /// Takes over what a count has found, and begins the next one when it is time. Says which counts differ, in words.
    pub(super) async fn verify(&self, state: &mut State) -> Option<String> {
        if state.verification.task.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(task) = state.verification.task.take()
        {
            match task.await {
                Ok(Ok(answers)) => self.verified(state, answers),
                Ok(Err(fault)) => {
                    let error = fault.at("verify", &self.inner.db.place);
                    tracing::warn!(store = self.inner.name, route = self.route.name, %error, "lanes could not be counted");
                }
                Err(_) => {}
            }
        }
        let every = EVERY.min(Duration::from_secs(u64::try_from(self.inner.partitioning.segment).unwrap_or(1)));
        let due = state.verification.began.is_none_or(|began| began.elapsed() >= every);
        if due && state.verification.task.is_none() && !state.lanes.is_empty() {
            let questions = state.lanes.values().map(|lane| (lane.number, Question::of(lane))).collect();
            let inner = Arc::clone(&self.inner);
            state.verification.task = Some(tokio::spawn(async move { count(&inner, questions).await }));
            state.verification.began = Some(Instant::now());
        }
        let State { verification, lanes, .. } = state;
        verification.differences.retain(|number, (term, _)| lanes.get(number).is_some_and(|lane| lane.term == *term));
        verification.differences.values().next().map(|(_, words)| words.clone())
    }

    fn verified(&self, state: &mut State, answers: BTreeMap<i16, Answer>) {
        for (number, Answer { term, counted, rows, seen }) in answers {
            let Some(lane) = state.lanes.get_mut(&number).filter(|lane| lane.term == term) else { continue };
            lane.counts.count_the_rest(rows, seen);
            let differences = &mut state.verification.differences;
            if rows == counted.rows {
                lane.counted = Some(counted);
                differences.remove(&number);
                continue;
            }
            let words = format!(
                "counts_differ: lane {number} has {rows} events up to its position, but has accounted for {}; \
                 `postroom verify` shows the counts, `postroom store repair` delivers events that were passed",
                counted.rows
            );
            if differences.insert(number, (term, words)).is_none() {
                tracing::error!(
                    store = self.inner.name,
                    route = self.route.name,
                    lane = number,
                    rows,
                    accounted_for = counted.rows,
                    "the number of events up to the position of a lane differs from the number it has read: events may have been passed"
                );
            }
        }
    }
}

impl Question {
    fn of(lane: &Lane) -> Self {
        Self {
            term: lane.term,
            position: lane.position.clone(),
            rows: lane.counts.accounted_for(),
            seen: lane.counts.seen,
            before: lane.counted.clone(),
        }
    }
}

/// Counts lanes. One whose rows were truncated meanwhile has no answer.
async fn count(inner: &Arc<Inner>, questions: BTreeMap<i16, Question>) -> Result<BTreeMap<i16, Answer>, Fault> {
    let (known, new): (BTreeMap<_, _>, BTreeMap<_, _>) = questions.into_iter().partition(|(_, q)| q.before.is_some());
    let mut answers = since(inner, known).await?;
    answers.extend(from_the_first_row(inner, new).await?);
    Ok(answers)
}

/// The rows of some lanes above `after` and up to each one's number, and how many were truncated.
async fn rows_of(
    inner: &Arc<Inner>,
    lanes: &BTreeMap<i16, Question>,
    stretch: impl Fn(&Question) -> (i64, i64),
) -> Result<BTreeMap<i16, (i64, i64)>, Fault> {
    let (mut numbers, mut afters, mut uptos) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of, mut xs, mut los) = (Vec::new(), Vec::new(), Vec::new());
    for (number, question) in lanes {
        let (after, upto) = stretch(question);
        numbers.push(*number);
        afters.push(after);
        uptos.push(upto);
        for (x, lo) in &question.position.pending {
            of.push(*number);
            xs.push(*x);
            los.push(*lo);
        }
    }
    inner
        .db
        .attempt("verify", Kind::Statements, move |session| {
            Box::pin(async move {
                let statement = session.sql.query(include_str!("../sql/verify.sql"));
                let statement = statement.bind(numbers).bind(afters).bind(uptos).bind(of).bind(xs).bind(los);
                let rows = statement.fetch_all(&mut *session.conn).await?;
                let one = |row: &sqlx::postgres::PgRow| {
                    Ok((row.try_get("lane")?, (row.try_get("rows")?, row.try_get("truncated")?)))
                };
                Ok(rows.iter().map(one).collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}

/// How many rows some transactions ($1, $2, $3: lane, transaction, lo) have committed up to the lane's number ($4).
/// Served by each partition's BRIN on tx.
const LATE: &str = "
    select p.lane, count(*) as rows
    from (select lane, seq, tx from postroom.log where tx = any($2::int8[]) offset 0) l
    join unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[]) as p(lane, x, lo, upto)
      on p.lane = l.lane and p.x = l.tx and l.seq > p.lo and l.seq <= p.upto
    group by p.lane";

/// Counts what lanes have moved over since they were last counted.
async fn since(inner: &Arc<Inner>, lanes: BTreeMap<i16, Question>) -> Result<BTreeMap<i16, Answer>, Fault> {
    let is_swept = |question: &Question| {
        let before = question.before.as_ref().map(|before| &before.position.pending);
        let same = |(x, lo): (&i64, &i64)| before.and_then(|before| before.get(x)).is_none_or(|was| was == lo);
        // A sweep that is half done has brought some late rows and not others.
        question.position.pending.iter().all(same)
    };
    let lanes: BTreeMap<i16, Question> = lanes.into_iter().filter(|(_, question)| is_swept(question)).collect();
    if lanes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (mut of, mut xs, mut los, mut uptos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, question) in &lanes {
        let Some(before) = &question.before else { continue };
        for (x, lo) in before.position.pending.iter().filter(|(x, _)| !question.position.pending.contains_key(x)) {
            of.push(*number);
            xs.push(*x);
            los.push(*lo);
            uptos.push(before.position.hwm);
        }
    }
    let late: BTreeMap<i16, i64> = if xs.is_empty() {
        BTreeMap::new()
    } else {
        inner
            .db
            .attempt("verify", Kind::Statements, move |session| {
                Box::pin(async move {
                    let statement = session.sql.query(LATE);
                    let statement = statement.bind(of).bind(xs).bind(los).bind(uptos);
                    let rows = statement.fetch_all(&mut *session.conn).await?;
                    let one = |row: &sqlx::postgres::PgRow| Ok((row.try_get("lane")?, row.try_get("rows")?));
                    Ok(rows.iter().map(one).collect::<Result<_, sqlx::Error>>()?)
                })
            })
            .await?
    };
    let from = |question: &Question| question.before.as_ref().map_or(0, |before| before.position.hwm);
    let fresh = rows_of(inner, &lanes, |question| (from(question), question.position.hwm)).await?;
    let mut answers = BTreeMap::new();
    for (number, Question { term, position, rows, seen, before }) in lanes {
        let (Some(before), Some(rows), Some((new, truncated))) = (before, rows, fresh.get(&number)) else { continue };
        // Retention counts everything before it truncates: from there on it agrees.
        let there = if *truncated == before.truncated {
            before.rows + new + late.get(&number).copied().unwrap_or(0)
        } else {
            rows
        };
        let counted = Counted { position, rows, truncated: *truncated };
        answers.insert(number, Answer { term, counted, rows: there, seen });
    }
    Ok(answers)
}

/// Counts whole lanes, step by step.
async fn from_the_first_row(
    inner: &Arc<Inner>,
    lanes: BTreeMap<i16, Question>,
) -> Result<BTreeMap<i16, Answer>, Fault> {
    let Some(last) = lanes.values().map(|question| question.position.hwm).max() else { return Ok(BTreeMap::new()) };
    let ours: Vec<i16> = lanes.keys().copied().collect();
    let mut answers = BTreeMap::new();
    for _ in 0..TRIES {
        let mut after = first_number(inner, ours.clone()).await? - 1;
        let mut sums: BTreeMap<i16, i64> = BTreeMap::new();
        let mut truncated: BTreeMap<i16, (i64, i64)> = BTreeMap::new();
        loop {
            let (began, upto) = (Instant::now(), after.saturating_add(STEP));
            let step = rows_of(inner, &lanes, |question| (after, upto.min(question.position.hwm))).await?;
            for (number, (rows, gone)) in step {
                *sums.entry(number).or_default() += rows;
                truncated.entry(number).or_insert((gone, gone)).1 = gone;
            }
            if upto >= last {
                break;
            }
            after = upto;
            tokio::time::sleep(began.elapsed() * PAUSES).await;
        }
        for (number, question) in &lanes {
            let Some((first, now)) = truncated.get(number).filter(|(first, now)| first == now) else { continue };
            let rows = sums.get(number).copied().unwrap_or(0) + first;
            let should = question.rows.unwrap_or(rows);
            let counted = Counted { position: question.position.clone(), rows: should, truncated: *now };
            answers.insert(*number, Answer { term: question.term, counted, rows, seen: question.seen });
        }
        if answers.len() == lanes.len() {
            break;
        }
    }
    Ok(answers)
}

/// The first number of some lanes that is in the log; 1 when there is none.
async fn first_number(inner: &Arc<Inner>, lanes: Vec<i16>) -> Result<i64, Fault> {
    inner
        .db
        .attempt("verify", Kind::Statements, move |session| {
            Box::pin(async move {
                let first = session.sql.scalar::<Option<i64>>(
                    "select min(f.seq) from unnest($1::int2[]) as n(lane) cross join lateral (
                       select l.seq from postroom.log l where l.lane = n.lane order by l.seq limit 1) f",
                );
                Ok(first.bind(lanes).fetch_one(&mut *session.conn).await?.unwrap_or(1))
            })
        })
        .await
}
