//! How much a route is behind, from the store alone: exact while that is cheap, then estimated.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::events::{count, wanted};
use crate::routes::Registered;
use crate::source::checkpoint::Checkpoint;

/// Up to how many due deliveries are counted one by one.
const EXACT_MAX: u64 = 10_000;

/// What a route should have tried by now.
pub(super) struct Due {
    /// `None` if none was found among the rows that were read, and there are more: then it is not known.
    pub(super) number: Option<u64>,
    /// Whether there were too many to count.
    pub(super) estimated: bool,
    /// Since when the oldest of them is due.
    oldest: Option<i64>,
}

impl Due {
    fn new(number: u64, estimated: bool, oldest: Option<i64>) -> Self {
        Self { number: (number > 0 || !estimated).then_some(number), estimated, oldest }
    }

    /// Returns the age of the oldest of them, in seconds: 0 if there is none, `None` if that is not known.
    pub(super) fn age_seconds(&self, now: i64) -> Option<f64> {
        let age = |at: i64| (now - at).max(0) as f64 / 1_000_000.0;
        self.number.map(|_| self.oldest.map_or(0.0, age))
    }
}

/// Counts what should have been tried by now: parked ones whose time has come, unsettled ones, and fresh ones.
pub(super) async fn of(
    conn: &mut SqliteConnection,
    route: &Registered,
    position: &Checkpoint,
    now: i64,
) -> Result<Due, sqlx::Error> {
    let parked = sqlx::query(
        "select count(*) as number, min(due) as oldest from postroom_delivery where route = ?1 and due <= ?2",
    )
    .bind(&route.name)
    .bind(now)
    .fetch_one(&mut *conn)
    .await?;
    let mut oldest: Option<i64> = parked.try_get("oldest")?;
    let mut older = |at: i64| oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
    if let Some((first, _)) = position.unsettled.iter().next() {
        let at: Option<i64> = sqlx::query_scalar(
            "select max(appended_at, coalesce(available_at, 0)) from postroom_log where seq >= ?1 limit 1",
        )
        .bind(first)
        .fetch_optional(&mut *conn)
        .await?;
        at.into_iter().for_each(&mut older);
    }
    let rows = sqlx::query(include_str!("../sql/heads_after.sql"))
        .bind(&route.name)
        .bind(position.hwm)
        .bind(i64::try_from(EXACT_MAX).unwrap_or(i64::MAX) + 1)
        .fetch_all(&mut *conn)
        .await?;
    let mut fresh = 0;
    for row in &rows {
        if let Some(at) = due_since(route, row, now)? {
            fresh += 1;
            older(at);
        }
    }
    let mut number = count(parked.try_get("number")?) + position.unsettled.len() + fresh;
    let more = rows.len() as u64 > EXACT_MAX;
    if more {
        // The rest is taken to be like the part that was read.
        let last: i64 = sqlx::query_scalar("select max(seq) from postroom_log").fetch_one(conn).await?;
        let read = rows.last().map_or(Ok(0), |row| row.try_get::<i64, _>("seq"))?;
        number += count(last - read) * fresh / rows.len() as u64;
    }
    Ok(Due::new(number, more || number > EXACT_MAX, oldest))
}

/// Since when a fresh event should have been tried; `None` when it need not be yet.
fn due_since(route: &Registered, row: &SqliteRow, now: i64) -> Result<Option<i64>, sqlx::Error> {
    let appended_at: i64 = row.try_get("appended_at")?;
    let since = appended_at.max(row.try_get::<Option<i64>, _>("available_at")?.unwrap_or(0));
    let is_wanted = route.start_at.is_none_or(|start| appended_at >= start) && wanted(&route.filter, row)?;
    Ok((is_wanted && since <= now && !row.try_get::<bool, _>("blocked")?).then_some(since))
}
