//! Sends settled events again, as deliveries of their own that block nobody and are part of no count.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use postroom_core::view::Affected;
use postroom_core::{Actor, Ranges, ReplayOptions, Selection, StoreError, StoreErrorKind};
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::actions;
use super::selection;
use super::turns::{self, Turns};
use crate::clock::{span, timestamp};
use crate::error::Fault;
use crate::events::{maybe_text, wanted};
use crate::routes::{self, Registered};
use crate::source::checkpoint::Checkpoint;
use crate::store::Inner;

/// Events looked at per statement.
const ROWS_AT_ONCE: i64 = 1_000;

/// Adds up what a selection touches.
pub(super) struct Summary {
    inbox_cut: Option<i64>,
    keys: BTreeSet<String>,
    oldest: Option<i64>,
    affected: Affected,
}

impl Summary {
    pub(super) fn new(inbox_cut: Option<i64>) -> Self {
        Self { inbox_cut, keys: BTreeSet::new(), oldest: None, affected: Affected::default() }
    }

    /// Adds a delivery; the row has `ordering_key`, `occurred_at` and `appended_at`.
    pub(super) fn add(&mut self, route: &str, row: &SqliteRow) -> Result<(), sqlx::Error> {
        let occurred_at = row.try_get("occurred_at")?;
        let appended_at: i64 = row.try_get("appended_at")?;
        self.keys.extend(maybe_text(row, "ordering_key")?.map(Cow::into_owned));
        self.oldest = Some(self.oldest.map_or(occurred_at, |oldest| oldest.min(occurred_at)));
        self.affected.deliveries += 1;
        *self.affected.routes.entry(route.to_owned()).or_default() += 1;
        self.affected.older_than_inbox += u64::from(self.inbox_cut.is_some_and(|cut| appended_at < cut));
        Ok(())
    }

    /// How many have been added.
    pub(super) fn deliveries(&self) -> u64 {
        self.affected.deliveries
    }

    pub(super) fn finish(self) -> Affected {
        Affected { keys: self.keys.len() as u64, oldest: self.oldest.map(timestamp), ..self.affected }
    }
}

/// What was appended before is older than the inbox remembers.
pub(super) fn inbox_cut(how: ReplayOptions, now: i64) -> Option<i64> {
    how.inbox_window.map(|window| now.saturating_sub(span(window)))
}

/// Microseconds between two deliveries.
pub(super) fn step(how: ReplayOptions) -> f64 {
    how.rate.filter(|rate| *rate > 0.0).map_or(0.0, |rate| 1_000_000.0 / rate)
}

/// Per route the numbers to send again, each with its place in the whole replay.
type Chosen = BTreeMap<String, Vec<(i64, u64)>>;

pub(super) async fn replay(
    inner: &Inner,
    which: &Selection,
    how: ReplayOptions,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    if which.code.is_some() {
        return Err(StoreError::new(StoreErrorKind::Invalid, "replay", "settled events have no failure to select by")
            .hint("dead letters have: replay those"));
    }
    let (which, now) = (which.clone(), inner.now());
    let describe = which.describe();
    let cut = inbox_cut(how, now);
    // Choosing may walk the whole log, so it holds no lock; what changes meanwhile is left out when they are made.
    let (chosen, affected) =
        inner.db.read("replay", move |conn| Box::pin(async move { choose(conn, &which, cut).await })).await?;
    if how.dry_run {
        return Ok(affected);
    }
    let number = actions::begin(inner, actor, "replay", describe).await?;
    let mut turns = Turns::new();
    for (route, numbers) in chosen {
        for some in numbers.chunks(turns::ROWS_AT_ONCE) {
            turns.next().await;
            let (route, some) = (route.clone(), json!(some).to_string());
            inner
                .db
                .write("replay", move |conn| {
                    Box::pin(async move {
                        let made = make(conn, &route, &some, step(how), now).await?;
                        Ok(actions::add(conn, number, made).await?)
                    })
                })
                .await?;
            inner.wake.wake();
        }
    }
    Ok(affected)
}

async fn choose(conn: &mut SqliteConnection, which: &Selection, cut: Option<i64>) -> Result<(Chosen, Affected), Fault> {
    let wanted = match &which.route {
        Some(name) => vec![routes::need(conn, name, "replay").await?],
        None => routes::all(conn).await?,
    };
    let mut routes = Vec::new();
    for route in wanted {
        let row = sqlx::query("select * from postroom_checkpoint where route = ?1 and lane = 0")
            .bind(&route.name)
            .fetch_optional(&mut *conn)
            .await?;
        let Some(row) = row else { return Err(routes::no_checkpoint(&route.name).into()) };
        let Checkpoint { hwm, unsettled, .. } = Checkpoint::read(&row)?;
        routes.push((route, hwm, unsettled));
    }
    let last = routes.iter().map(|(_, hwm, _)| *hwm).max().unwrap_or(0);
    let (mut chosen, mut summary, mut after, mut place) = (Chosen::new(), Summary::new(cut), 0, 0);
    loop {
        let rows = settled(conn, which, after, last).await?;
        let Some(end) = rows.last() else { break };
        after = end.try_get("seq")?;
        let open = open(conn, &rows).await?;
        for row in &rows {
            let seq = row.try_get("seq")?;
            for (route, hwm, unsettled) in &routes {
                if !wants(route, *hwm, unsettled, seq, row)? || open.contains(&(seq, route.name.clone())) {
                    continue;
                }
                chosen.entry(route.name.clone()).or_default().push((seq, place));
                summary.add(&route.name, row)?;
                place += 1;
            }
        }
    }
    Ok((chosen, summary.finish()))
}

async fn settled(
    conn: &mut SqliteConnection,
    which: &Selection,
    after: i64,
    last: i64,
) -> Result<Vec<SqliteRow>, sqlx::Error> {
    let mut query = QueryBuilder::new(
        "select l.seq, l.type, l.aggregate_type, l.tenant, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key from postroom_log l where l.seq > ",
    );
    query.push_bind(after).push(" and l.seq <= ").push_bind(last);
    selection::on_log(&mut query, which);
    query.push(" order by l.seq limit ").push_bind(ROWS_AT_ONCE);
    query.build().fetch_all(conn).await
}

/// Which of these numbers are already on their way, and to which routes.
async fn open(conn: &mut SqliteConnection, rows: &[SqliteRow]) -> Result<HashSet<(i64, String)>, sqlx::Error> {
    let numbers = rows.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
    let open =
        sqlx::query_as("select seq, route from postroom_delivery where seq in (select value from json_each(?1))")
            .bind(json!(numbers).to_string())
            .fetch_all(conn)
            .await?;
    Ok(open.into_iter().collect())
}

fn wants(route: &Registered, hwm: i64, unsettled: &Ranges, seq: i64, row: &SqliteRow) -> Result<bool, sqlx::Error> {
    Ok(seq <= hwm && !unsettled.contains(seq) && wanted(&route.filter, row)?)
}

/// Makes the deliveries that are not there yet; returns how many those are.
async fn make(
    conn: &mut SqliteConnection,
    route: &str,
    numbers: &str,
    step: f64,
    now: i64,
) -> Result<u64, sqlx::Error> {
    let made = sqlx::query(include_str!("../sql/replay.sql"))
        .bind(route)
        .bind(numbers)
        .bind(now)
        .bind(step)
        .execute(conn)
        .await?;
    Ok(made.rows_affected())
}
