//! Retention: rows that were done long ago go, to the archive if there is one; so do failed tries that nobody needs.

use std::time::Duration;

use postroom_core::view::Pruned;
use postroom_core::{Retention, StoreError};

use super::query::{Query, number};
use crate::ground::Statement;
use crate::store::{Inner, clock};

/// Rows removed in one transaction.
const TURN: usize = 1_000;

pub(super) async fn prune(inner: &Inner, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    // The table is its owner's: rows go only where the layout says so.
    if let Some(keep) = retention.delivered.filter(|_| inner.layout.prunes) {
        pruned.events = rows(inner, keep, dry_run).await?;
    }
    if !dry_run {
        minutes(inner).await?;
    }
    if let Some(keep) = retention.attempts {
        pruned.attempts = attempts(inner, keep, dry_run).await?;
        if !dry_run {
            replays(inner, keep).await?;
        }
    }
    Ok(pruned)
}

async fn rows(inner: &Inner, keep: Duration, dry_run: bool) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let mut query = Query::new(inner);
        query.and(query.is_done());
        let before = query.value(micros_ago(keep));
        let moment = query.writer.at_micros(&before);
        query.and(format!("{} < {moment}", query.occurred_at()));
        if dry_run {
            let statement = format!("select cast(count(*) as text) {}", query.from());
            let rows = query.fetch("prune", statement).await?;
            return Ok(rows.first().map(|row| number(row, 0)).unwrap_or_default());
        }
        let statement = format!("select {} {} limit {TURN}", query.row(), query.from());
        let chosen = query.fetch("prune", statement).await?;
        if chosen.is_empty() {
            return Ok(removed);
        }
        let list: Vec<serde_json::Value> = chosen.iter().map(|row| serde_json::json!({"id": row.first()})).collect();
        let writer = inner.writer();
        let list = serde_json::json!(list).to_string();
        let mut statements = Vec::new();
        if let Some(archive) = &inner.layout.archive {
            let copy = crate::sql::operate::archive(&inner.layout, &writer, inner.settled_columns(), archive);
            statements.push(Statement::new(copy).bind(&inner.layout_name).bind(clock()).bind(list.clone()));
        }
        let delete = crate::sql::operate::delete(&inner.layout, &writer);
        statements.push(Statement::new(delete).bind(&inner.layout_name).bind(clock()).bind(list));
        let found = inner.ground.run("prune", statements).await?;
        let gone = found.last().map_or(0, Vec::len) as u64;
        removed += gone;
        if gone == 0 {
            return Ok(removed);
        }
    }
}

/// Tries of rows that the side table no longer knows.
async fn attempts(inner: &Inner, keep: Duration, dry_run: bool) -> Result<u64, StoreError> {
    let writer = inner.writer();
    let condition = format!(
        "a.layout = $1 and a.at < {} and not exists (select 1 from {} s where s.layout = a.layout and s.row_id = a.row_id)",
        writer.at_micros("$2"),
        writer.own("sidecar")
    );
    let table = writer.own("adopted_attempt");
    let text_of = if dry_run {
        format!("select cast(count(*) as text) from {table} a where {condition}")
    } else {
        format!("delete from {table} as a where {condition} returning row_id")
    };
    let statement = Statement::new(text_of).bind(&inner.layout_name).bind(micros_ago(keep));
    let found = inner.ground.run("prune", vec![statement]).await?;
    let rows = found.into_iter().next().unwrap_or_default();
    Ok(if dry_run { rows.first().map(|row| number(row, 0)).unwrap_or_default() } else { rows.len() as u64 })
}

/// Sums of minutes that are a day old.
async fn minutes(inner: &Inner) -> Result<(), StoreError> {
    let writer = inner.writer();
    let delete = format!("delete from {} where minute < {}", writer.own("adopted_stat"), writer.at_micros("$1"));
    let day = micros_ago(Duration::from_hours(24));
    inner.ground.run("prune", vec![Statement::new(delete).bind(day)]).await.map(drop)
}

/// Replays that have ended, which are few.
async fn replays(inner: &Inner, keep: Duration) -> Result<(), StoreError> {
    let writer = inner.writer();
    let (table, before) = (writer.own("adopted_replay"), writer.at_micros("$2"));
    let delete = format!("delete from {table} where layout = $1 and ended_at < {before}");
    let delete = Statement::new(delete).bind(&inner.layout_name).bind(micros_ago(keep));
    inner.ground.run("prune", vec![delete]).await.map(drop)
}

fn micros_ago(keep: Duration) -> String {
    let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
    jiff::Timestamp::now().as_microsecond().saturating_sub(keep).to_string()
}
