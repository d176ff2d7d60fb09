//! Watches whether rows change without us: an old dispatcher that still runs would send what we send.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::StoreError;
use serde::Serialize;

use super::{Survey, says_something};
use crate::executor::{Dialect, Rows, SqlExecutor, Statement};
use crate::mapping::{ColumnPath, Mapping};
use crate::sql::{Writer, literal, pending};

/// Pending rows that are looked at again.
const WATCHED_ROWS: usize = 1_000;
/// Rows that are counted at most.
const COUNTED_MAX: usize = 100_000;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// Pending rows that were changed or are pending no more.
    pub changed: u64,
    /// By how many there are more rows that are done.
    pub done: u64,
    /// Rows that were updated, as the server counts them.
    pub updated: u64,
    /// Rows that were deleted, as the server counts them.
    pub deleted: u64,
    /// Who changes rows.
    pub sessions: Vec<Session>,
    /// Whether rows could not be compared: reading them took too long, or failed.
    pub blind: bool,
}

/// A session that changes rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Its process on the server.
    pub pid: String,
    /// What it calls itself.
    pub application: String,
    /// Its user.
    pub user: String,
    /// Where it comes from.
    pub address: String,
    /// What it does.
    pub does: String,
}

impl Watched {
    /// Whether somebody else is at work.
    pub fn is_quiet(&self) -> bool {
        *self == Self { blind: self.blind, ..Self::default() }
    }
}

/// Looks, waits, and looks again.
pub async fn watch(
    executor: &Arc<dyn SqlExecutor>,
    survey: &Survey,
    mapping: &Mapping,
    time: Duration,
) -> Result<Watched, StoreError> {
    let before = Look::take(executor, survey, mapping).await?;
    let mut sessions = sessions(executor, survey).await?;
    tokio::time::sleep(time).await;
    let after = Look::take(executor, survey, mapping).await?;
    let still = still_pending(executor, survey, mapping, &before.rows).await?;
    sessions.extend(self::sessions(executor, survey).await?);
    sessions.sort_by(|a, b| a.pid.cmp(&b.pid));
    sessions.dedup_by(|a, b| a.pid == b.pid);
    let changed = before.rows.iter().filter(|(row, state)| still.get(*row) != Some(*state)).count() as u64;
    Ok(Watched {
        changed,
        done: after.done.saturating_sub(before.done),
        updated: after.updated.saturating_sub(before.updated),
        deleted: after.deleted.saturating_sub(before.deleted),
        sessions,
        blind: before.blind || after.blind,
    })
}

/// The table at one moment.
struct Look {
    /// Pending rows by id, with what a dispatcher would change about them.
    rows: BTreeMap<String, String>,
    done: u64,
    updated: u64,
    deleted: u64,
    blind: bool,
}

impl Look {
    async fn take(executor: &Arc<dyn SqlExecutor>, survey: &Survey, mapping: &Mapping) -> Result<Self, StoreError> {
        let writer = writer(executor, survey);
        let table = mapping.table.quoted();
        let rows = format!(
            "select {} from {table} t where {} order by {} limit {WATCHED_ROWS}",
            marks(mapping, &writer),
            pending(mapping, &writer),
            writer.of(&mapping.row)
        );
        let done = format!(
            "select cast(count(*) as text) from (select 1 from {table} t where not ({}) limit {COUNTED_MAX}) d",
            pending(mapping, &writer)
        );
        let statements = without_ours(&writer, vec![Statement::new(rows), Statement::new(done)]);
        let (found, blind) = match executor.look("adopt", statements).await {
            Ok(found) => (found, false),
            Err(error) if says_something(&error) => (Vec::new(), true),
            Err(error) => return Err(error),
        };
        let mut found = found.into_iter();
        let changes = match executor.dialect() {
            Dialect::Postgres => {
                let statement = Statement::new(include_str!("postgres/changes.sql")).bind(table);
                executor.look("adopt", vec![statement]).await?.into_iter().next().unwrap_or_default()
            }
            Dialect::Sqlite => Rows::new(),
        };
        let number = |rows: &Rows, n: usize| -> u64 {
            rows.first().and_then(|row| row.get(n)?.as_deref()?.parse().ok()).unwrap_or_default()
        };
        let (rows, done) = (read(found.next().unwrap_or_default()), number(&found.next().unwrap_or_default(), 0));
        Ok(Self { rows, done, updated: number(&changes, 0), deleted: number(&changes, 1), blind })
    }
}

fn writer<'a>(executor: &'a Arc<dyn SqlExecutor>, survey: &'a Survey) -> Writer<'a> {
    Writer { dialect: executor.dialect(), schema: executor.schema(), columns: &survey.columns, alias: "t" }
}

/// Our function may not be there yet; a cast fails on what is no JSON.
fn without_ours(writer: &Writer<'_>, statements: Vec<Statement>) -> Vec<Statement> {
    let ours = writer.own("adopted_json");
    let plain = |statement: Statement| Statement {
        text: statement.text.replace(&ours, "pg_catalog.jsonb").into(),
        ..statement
    };
    statements.into_iter().map(plain).collect()
}

/// A row's id, and what a dispatcher would change about it.
fn marks(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let row = writer.text(&ColumnPath::column(mapping.row.clone()));
    let paths = [&mapping.attempts, &mapping.next_attempt, &mapping.error];
    let texts: Vec<String> = paths
        .into_iter()
        .flatten()
        .map(|path| format!("coalesce({}, '')", writer.text(path)))
        .chain([literal("")])
        .collect();
    format!("{row}, {}", texts.join(" || ' ' || "))
}

fn read(rows: Rows) -> BTreeMap<String, String> {
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        Some((cells.next()?, cells.next().unwrap_or_default()))
    };
    rows.into_iter().filter_map(pair).collect()
}

/// Those of the rows that are pending still, as they are now.
async fn still_pending(
    executor: &Arc<dyn SqlExecutor>,
    survey: &Survey,
    mapping: &Mapping,
    rows: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, StoreError> {
    if rows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let writer = writer(executor, survey);
    let text = format!(
        "select {} from {}, {} t where {} = {} and {}",
        marks(mapping, &writer),
        writer.unpacked("$1", &["id"]),
        mapping.table.quoted(),
        writer.of(&mapping.row),
        writer.row_id(&mapping.row, "x.id"),
        pending(mapping, &writer)
    );
    let ids: Vec<serde_json::Value> = rows.keys().map(|row| serde_json::json!({ "id": row })).collect();
    let statement = Statement::new(text).bind(serde_json::Value::from(ids).to_string());
    let found = executor.look("adopt", without_ours(&writer, vec![statement])).await?;
    Ok(read(found.into_iter().next().unwrap_or_default()))
}

async fn sessions(executor: &Arc<dyn SqlExecutor>, survey: &Survey) -> Result<Vec<Session>, StoreError> {
    if executor.dialect() == Dialect::Sqlite {
        return Ok(Vec::new());
    }
    let table = &survey.facts.table;
    let statement =
        Statement::new(include_str!("postgres/sessions.sql")).bind(table.quoted()).bind(table.table.as_str());
    let found = executor.look("adopt", vec![statement]).await?;
    let session = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().unwrap_or_default();
        Session { pid: next(), application: next(), user: next(), address: next(), does: next() }
    };
    Ok(found.into_iter().flatten().map(session).collect())
}
