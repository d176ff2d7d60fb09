//! What failed or came back, on its way into the tables. The caller has locked the lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postroom_core::{Failure, HandlerError, OnDead, OnFailure, RouteSpec, Verdict};
use serde_json::json;
use sqlx::Row as _;

use crate::clock::{Time, span};
use crate::database::Session;
use crate::error::Fault;
use crate::release::block_again;
use crate::sql::stored;

/// A failed try.
#[derive(Debug)]
pub(super) struct Failed {
    handle: i64,
    pub(super) lane: i16,
    key: Option<String>,
    state: &'static str,
    /// How long until it is due; `None` for a dead one.
    after: Option<i64>,
    attempts: u32,
    failure: Failure,
    /// Whether later events of the key wait for it, if it keeps their order at all.
    blocks: bool,
    took: Duration,
}

impl Failed {
    /// The failure in a verdict.
    pub(super) fn of(
        route: &RouteSpec,
        verdict: Verdict,
        handle: i64,
        lane: i16,
        key: Option<String>,
        took: Duration,
    ) -> Option<Self> {
        Some(match verdict {
            Verdict::Delivered(_) | Verdict::Returned => return None,
            Verdict::Retry { attempts, after, failure } => {
                let blocks = route.on_failure == OnFailure::Block;
                Self { handle, lane, key, state: "retrying", after: Some(span(after)), attempts, failure, blocks, took }
            }
            Verdict::Dead { attempts, failure, .. } => {
                let blocks = route.on_dead == OnDead::Hold;
                Self { handle, lane, key, state: "dead", after: None, attempts, failure, blocks, took }
            }
        })
    }

    /// The key that waits for it, where one does; for first deliveries.
    pub(super) fn blocking(&self) -> Option<(i16, String)> {
        let key = self.key.as_ref().filter(|_| self.blocks)?;
        Some((self.lane, key.clone()))
    }
}

/// A first delivery that came back and whose key may be blocked.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) lane: i16,
    pub(super) seq: i64,
    pub(super) key: String,
}

/// A row before its verdict.
struct Row {
    handle: i64,
    seq: i64,
    key: Option<String>,
    /// Whether its key waits for it.
    blocks: bool,
    round: i32,
    dead: bool,
    /// Replay that made it due.
    replay: Option<String>,
}

/// Writes failures of first deliveries and of parked ones; returns the keys that may go on.
pub(super) async fn write(
    session: &mut Session,
    route: &str,
    fresh: &[Failed],
    parked: &[Failed],
    now: i64,
) -> Result<BTreeSet<String>, Fault> {
    let mut free = BTreeSet::new();
    let mut again = Vec::new();
    for (failed, rows) in
        [(fresh, park(session, route, fresh, now).await?), (parked, park_again(session, parked, now).await?)]
    {
        attempts(session, route, failed, &rows, now).await?;
        for failed in failed {
            let Some(row) = rows.get(&failed.handle) else { continue };
            match &row.key {
                Some(key) if row.blocks && failed.blocks && !row.dead => again.push((key.clone(), row.seq)),
                Some(key) if row.blocks => drop(free.insert(key.clone())),
                _ => {}
            }
        }
    }
    block_again(session, route, &again, now).await?;
    Ok(free)
}

fn column<T>(all: &[Failed], of: impl Fn(&Failed) -> T) -> Vec<T> {
    all.iter().map(of).collect()
}

/// First deliveries that failed get rows of their own.
async fn park(session: &mut Session, route: &str, failed: &[Failed], now: i64) -> Result<BTreeMap<i64, Row>, Fault> {
    if failed.is_empty() {
        return Ok(BTreeMap::new());
    }
    let statement = session.sql.query(include_str!("../sql/park.sql")).bind(route.to_owned()).bind(Time(now));
    let rows = statement
        .bind(column(failed, |f| f.lane))
        .bind(column(failed, |f| f.handle))
        .bind(column(failed, |f| f.key.clone()))
        .bind(column(failed, |f| f.state))
        .bind(column(failed, |f| f.blocks && f.key.is_some()))
        .bind(column(failed, |f| f.after.map(|after| Time(now.saturating_add(after)))))
        .bind(column(failed, |f| f.attempts.cast_signed()))
        .bind(column(failed, |f| stored(&f.failure.code)))
        .bind(column(failed, |f| stored(&f.failure.error)))
        .fetch_all(&mut *session.conn)
        .await?;
    let mut parked = BTreeMap::new();
    for row in &rows {
        let seq: i64 = row.try_get("seq")?;
        let Some(failed) = failed.iter().find(|f| f.handle == seq) else { continue };
        let (key, blocks) = (failed.key.clone(), failed.blocks && failed.key.is_some());
        let (handle, round) = (row.try_get("handle")?, row.try_get("round")?);
        parked.insert(seq, Row { handle, seq, key, blocks, round, dead: false, replay: None });
    }
    Ok(parked)
}

/// Rows that failed again. One that an operator gave up meanwhile stays dead, one that is gone stays gone.
async fn park_again(session: &mut Session, failed: &[Failed], now: i64) -> Result<BTreeMap<i64, Row>, Fault> {
    if failed.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = session
        .sql
        .query(include_str!("../sql/park_again.sql"))
        .bind(Time(now))
        .bind(column(failed, |f| -f.handle))
        .bind(column(failed, |f| f.state))
        .bind(column(failed, |f| f.blocks))
        .bind(column(failed, |f| f.after.map(|after| Time(now.saturating_add(after)))))
        .bind(column(failed, |f| f.attempts.cast_signed()))
        .bind(column(failed, |f| stored(&f.failure.code)))
        .bind(column(failed, |f| stored(&f.failure.error)))
        .fetch_all(&mut *session.conn)
        .await?;
    let mut parked = BTreeMap::new();
    for row in &rows {
        let handle: i64 = row.try_get("handle")?;
        parked.insert(
            -handle,
            Row {
                handle,
                seq: row.try_get("seq")?,
                key: row.try_get("key")?,
                blocks: row.try_get("blocks")?,
                round: row.try_get("round")?,
                dead: row.try_get("dead")?,
                replay: row.try_get("replayed_by")?,
            },
        );
    }
    Ok(parked)
}

/// One column of failed tries and the rows they belong to.
fn of_rows<T>(all: &[(&Failed, &Row)], of: impl Fn(&Failed, &Row) -> T) -> Vec<T> {
    all.iter().map(|(failed, row)| of(failed, row)).collect()
}

async fn attempts(
    session: &mut Session,
    route: &str,
    failed: &[Failed],
    rows: &BTreeMap<i64, Row>,
    now: i64,
) -> Result<(), Fault> {
    let tried: Vec<(&Failed, &Row)> = failed.iter().filter_map(|f| Some((f, rows.get(&f.handle)?))).collect();
    if tried.is_empty() {
        return Ok(());
    }
    session
        .sql
        .query(include_str!("../sql/attempt.sql"))
        .bind(route.to_owned())
        .bind(Time(now))
        .bind(of_rows(&tried, |_, row| row.handle))
        .bind(of_rows(&tried, |_, row| row.round))
        .bind(of_rows(&tried, |f, _| f.attempts.cast_signed()))
        .bind(of_rows(&tried, |_, row| row.seq))
        .bind(of_rows(&tried, |f, _| json!(f.failure.kind).as_str().unwrap_or_default().to_owned()))
        .bind(of_rows(&tried, |f, _| stored(&f.failure.code)))
        .bind(of_rows(&tried, |f, _| stored(&f.failure.error)))
        .bind(of_rows(&tried, |f, _| i64::try_from(f.took.as_millis()).unwrap_or(i64::MAX)))
        .bind(of_rows(&tried, |f, _| handlers(&f.failure)))
        .bind(of_rows(&tried, |_, row| row.replay.clone()))
        .execute(&mut *session.conn)
        .await?;
    Ok(())
}

/// Puts first deliveries that came back behind what blocks their key, if something does; says which.
pub(super) async fn park_returned(
    session: &mut Session,
    route: &str,
    returned: &[Returned],
    now: i64,
) -> Result<BTreeSet<i64>, Fault> {
    if returned.is_empty() {
        return Ok(BTreeSet::new());
    }
    let statement = session.sql.query(include_str!("../sql/park_returned.sql")).bind(route.to_owned()).bind(Time(now));
    let rows = statement
        .bind(returned.iter().map(|r| r.lane).collect::<Vec<_>>())
        .bind(returned.iter().map(|r| r.seq).collect::<Vec<_>>())
        .bind(returned.iter().map(|r| r.key.clone()).collect::<Vec<_>>())
        .fetch_all(&mut *session.conn)
        .await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// The errors of handlers, as JSON.
fn handlers(failure: &Failure) -> String {
    let stored = |one: &HandlerError| HandlerError { handler: stored(&one.handler), error: stored(&one.error) };
    json!(failure.handlers.iter().map(stored).collect::<Vec<_>>()).to_string()
}
