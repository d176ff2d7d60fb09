//! Reads what a take may hand out, on one snapshot. Decides what each event is; changes nothing.
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use postroom_core::faults::{self, Fault};
use postroom_core::{Budget, Failure, Limits, RouteSpec};
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::events::{Logged, count, logged, maybe_text, signed, wanted};

/// Most rows of the log that one look decides about, of either kind; the rest is for the next one.
pub(super) const ROWS_MAX: usize = 5_000;
/// Rows of the log per statement.
const ROWS_AT_ONCE: usize = 500;

/// Query for due rows.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) route: Arc<RouteSpec>,
    pub(super) start_at: Option<i64>,
    pub(super) now: i64,
    pub(super) budget: Budget,
    pub(super) limits: Limits,
    /// Counts takes: with room for one, due events and fresh ones take turns.
    pub(super) turn: usize,
    /// Numbers of the parked rows that are already outgoing, as a JSON array.
    pub(super) out: String,
    /// The first [`ROWS_MAX`] numbers seen before that are in nobody's hands.
    pub(super) again: Vec<i64>,
    /// Where fresh rows begin.
    pub(super) after: i64,
}

/// Rows that a query found.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) outgoing: Vec<Outgoing>,
    /// Numbers seen before that must be parked now.
    pub(super) parked_again: Vec<Parked>,
    /// Fresh numbers in order, with what they are.
    pub(super) fresh: Vec<(i64, Fate)>,
    pub(super) more: bool,
    pub(super) next_due: Option<i64>,
    pub(super) retrying: bool,
}

/// Row to deliver.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) handle: i64,
    pub(super) attempts: u32,
    pub(super) ordered: bool,
    pub(super) logged: Logged,
    /// Why it cannot be sent.
    pub(super) refused: Option<Box<Failure>>,
}

/// Row to park.
#[derive(Debug, Clone)]
pub(super) struct Parked {
    pub(super) seq: i64,
    pub(super) key: Option<Arc<str>>,
    /// Its time; `None` waits behind an earlier event of its key.
    pub(super) due: Option<i64>,
}

/// Handling of a fresh event by the route.
#[derive(Debug)]
pub(super) enum Fate {
    Filtered,
    Parked(Parked),
    Outgoing,
}

/// A number chosen, before its event is read.
struct Chosen {
    handle: i64,
    seq: i64,
    attempts: u32,
    ordered: bool,
}

/// What is left of the budget.
struct Room {
    rows: usize,
    bytes: u64,
    first: bool,
}

impl Room {
    /// Whether one of this size still fits; a first one always does.
    fn fits(&mut self, size: u64) -> bool {
        if self.rows == 0 || (!self.first && size > self.bytes) {
            return false;
        }
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(size);
        self.first = false;
        true
    }
}

/// Looks.
pub(super) async fn look(conn: &mut SqliteConnection, question: &Question) -> Result<Answer, sqlx::Error> {
    let mut answer = Answer::default();
    let mut chosen = Vec::new();
    let mut room = Room { rows: question.budget.rows, bytes: question.budget.bytes as u64, first: true };
    // First of all: what was seen before may be earlier events of the same keys.
    let all = again(conn, question, &mut room, &mut chosen, &mut answer).await?
        && share_room(conn, question, &mut room, &mut chosen, &mut answer).await?;
    answer.more = !all;
    answer.outgoing = load(conn, chosen, question.limits).await?;
    let name = &question.route.name;
    answer.next_due = sqlx::query_scalar(include_str!("../sql/next_due.sql"))
        .bind(name)
        .bind(question.now)
        .fetch_one(&mut *conn)
        .await?;
    answer.retrying = sqlx::query_scalar(include_str!("../sql/retrying.sql")).bind(name).fetch_one(conn).await?;
    Ok(answer)
}

/// Chooses due events and fresh ones, half of each where there are enough of both. Says whether there is nothing more. A fresh event
/// does not pass a due one of its key: the table has that one, so it is blocked.
async fn share_room(
    conn: &mut SqliteConnection,
    question: &Question,
    room: &mut Room,
    chosen: &mut Vec<Chosen>,
    answer: &mut Answer,
) -> Result<bool, sqlx::Error> {
    let mut due = due(conn, question, room).await?.into_iter().peekable();
    // Half of the room, rounded up every other time.
    let first = faults::is(Fault::RetriesFirst);
    let mut share = if first { room.rows } else { usize::midpoint(room.rows, question.turn % 2) };
    while share > 0
        && let Some((one, _)) = due.next_if(|(_, size)| room.fits(*size))
    {
        chosen.push(one);
        share -= 1;
    }
    if first && due.peek().is_some() {
        return Ok(false);
    }
    let all_fresh = fresh(conn, question, room, chosen, answer).await?;
    while let Some((one, _)) = due.next_if(|(_, size)| room.fits(*size)) {
        chosen.push(one);
    }
    Ok(all_fresh && due.peek().is_none())
}

/// Parked rows whose time has come, with their sizes: as many as there is room for, and one more.
async fn due(conn: &mut SqliteConnection, question: &Question, room: &Room) -> Result<Vec<(Chosen, u64)>, sqlx::Error> {
    let rows = sqlx::query(include_str!("../sql/due.sql"))
        .bind(&question.route.name)
        .bind(question.now)
        .bind(&question.out)
        .bind(signed(room.rows as u64 + 1))
        .fetch_all(conn)
        .await?;
    let one = |row: &SqliteRow| {
        let chosen = Chosen {
            handle: -row.try_get::<i64, _>("handle")?,
            seq: row.try_get("seq")?,
            attempts: row.try_get("attempts")?,
            ordered: row.try_get("blocks")?,
        };
        Ok((chosen, count(row.try_get("size")?)))
    };
    rows.iter().map(one).collect()
}

/// Numbers seen before that are in nobody's hands. Says whether all of them fit.
async fn again(
    conn: &mut SqliteConnection,
    question: &Question,
    room: &mut Room,
    chosen: &mut Vec<Chosen>,
    answer: &mut Answer,
) -> Result<bool, sqlx::Error> {
    for numbers in question.again.chunks(ROWS_AT_ONCE) {
        let rows = sqlx::query(include_str!("../sql/heads_of.sql"))
            .bind(&question.route.name)
            .bind(json!(numbers).to_string())
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            let seq = row.try_get("seq")?;
            if blocked(conn, question, row, seq).await? {
                answer.parked_again.push(Parked { seq, key: ordering_key(row)?, due: None });
            } else if room.fits(count(row.try_get("size")?)) {
                chosen.push(Chosen { handle: seq, seq, attempts: 0, ordered: true });
            } else {
                return Ok(false);
            }
        }
    }
    // Where there may be more of them, nothing else may pass them.
    Ok(question.again.len() < ROWS_MAX)
}

/// Rows after the position. Says whether the end of the log was reached.
async fn fresh(
    conn: &mut SqliteConnection,
    question: &Question,
    room: &mut Room,
    chosen: &mut Vec<Chosen>,
    answer: &mut Answer,
) -> Result<bool, sqlx::Error> {
    let mut after = question.after;
    while answer.fresh.len() < ROWS_MAX {
        let limit = (room.rows + 1).clamp(ROWS_AT_ONCE / 10, ROWS_AT_ONCE);
        let rows = sqlx::query(include_str!("../sql/heads_after.sql"))
            .bind(&question.route.name)
            .bind(after)
            .bind(signed(limit as u64))
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            let seq = row.try_get("seq")?;
            let fate = fate(conn, question, row, seq).await?;
            if matches!(fate, Fate::Outgoing) {
                if !room.fits(count(row.try_get("size")?)) {
                    return Ok(false);
                }
                chosen.push(Chosen { handle: seq, seq, attempts: 0, ordered: true });
            }
            answer.fresh.push((seq, fate));
            after = seq;
        }
        if rows.len() < limit {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn fate(
    conn: &mut SqliteConnection,
    question: &Question,
    row: &SqliteRow,
    seq: i64,
) -> Result<Fate, sqlx::Error> {
    let appended_at: i64 = row.try_get("appended_at")?;
    let wanted = question.start_at.is_none_or(|start| appended_at >= start) && wanted(&question.route.filter, row)?;
    let available_at: Option<i64> = row.try_get("available_at")?;
    Ok(if !wanted {
        Fate::Filtered
    } else if available_at.is_some_and(|at| at > question.now) {
        Fate::Parked(Parked { seq, key: ordering_key(row)?, due: available_at })
    } else if blocked(conn, question, row, seq).await? {
        Fate::Parked(Parked { seq, key: ordering_key(row)?, due: None })
    } else {
        Fate::Outgoing
    })
}

fn ordering_key(row: &SqliteRow) -> Result<Option<Arc<str>>, sqlx::Error> {
    Ok(maybe_text(row, "ordering_key")?.map(Arc::from))
}

/// Whether an earlier event of its key blocks it. Deliveries hold keys as they are read, so for one that is not UTF-8
/// the statement compared something else.
async fn blocked(
    conn: &mut SqliteConnection,
    question: &Question,
    row: &SqliteRow,
    seq: i64,
) -> Result<bool, sqlx::Error> {
    match maybe_text(row, "ordering_key")? {
        Some(Cow::Owned(key)) => {
            sqlx::query_scalar(include_str!("../sql/blocked.sql"))
                .bind(&question.route.name)
                .bind(key)
                .bind(seq)
                .fetch_one(conn)
                .await
        }
        _ => row.try_get("blocked"),
    }
}

/// Reads the events of the chosen numbers, in the order chosen. Payloads that are over the limits stay where they are.
async fn load(conn: &mut SqliteConnection, chosen: Vec<Chosen>, limits: Limits) -> Result<Vec<Outgoing>, sqlx::Error> {
    let mut events = HashMap::with_capacity(chosen.len());
    for some in chosen.chunks(ROWS_AT_ONCE) {
        let numbers: Vec<i64> = some.iter().map(|c| c.seq).collect();
        let rows = sqlx::query(include_str!("../sql/load.sql"))
            .bind(json!(numbers).to_string())
            .bind(signed(limits.payload_bytes_max as u64))
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            let mut logged = logged(row)?;
            let refused = logged.refuse(limits);
            events.insert(logged.seq, (logged, refused));
        }
    }
    Ok(chosen
        .into_iter()
        .filter_map(|c| {
            let (logged, refused) = events.get(&c.seq)?.clone();
            Some(Outgoing { handle: c.handle, attempts: c.attempts, ordered: c.ordered, logged, refused })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use postroom_admin::ManagedStore as _;
    use postroom_core::Event;

    use super::*;
    use crate::store::SqliteStore;

    /// Event 1 of a key blocks 2, which was seen before, and 3, which is fresh. It is settled between the two questions of one look:
    /// the look still sees it, or 3 would go out before 2.
    #[tokio::test]
    async fn a_look_sees_one_moment_though_a_blocker_is_settled_between_its_questions() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
        store.admin().append(&["t"; 3].map(|t| Event::new(t).key("k"))).await.unwrap();
        let blocker = "insert into postroom_delivery (route, seq, key, state, blocks, due, since) \
                       values ('r', 1, 'k', 'retrying', 1, 1, 0)";
        sqlx::query(blocker).execute(store.pool()).await.unwrap();
        let question = Question {
            route: Arc::new(RouteSpec::new("r")),
            start_at: None,
            now: 0,
            budget: Budget { rows: 10, bytes: 1 << 20 },
            limits: Limits::default(),
            turn: 0,
            out: "[]".to_owned(),
            again: vec![2],
            after: 2,
        };
        let pool = store.pool().clone();
        let answer = store.inner.db.look("take", move |conn| {
            Box::pin(async move {
                let (mut answer, mut chosen) = (Answer::default(), Vec::new());
                let mut room = Room { rows: 10, bytes: 1 << 20, first: true };
                again(conn, &question, &mut room, &mut chosen, &mut answer).await?;
                sqlx::query("delete from postroom_delivery").execute(&pool).await?;
                fresh(conn, &question, &mut room, &mut chosen, &mut answer).await?;
                Ok((answer, chosen.len()))
            })
        });
        let (answer, chosen) = answer.await.unwrap();
        let again: Vec<i64> = answer.parked_again.iter().map(|parked| parked.seq).collect();
        assert_eq!((again, chosen), (vec![2], 0));
        assert!(matches!(&answer.fresh[..], [(3, Fate::Parked(_))]), "{:?}", answer.fresh);
    }
}
