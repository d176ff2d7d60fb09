//! Retention: rows that were done long ago go, to the archive if there is one; so does what nobody needs of failed tries, of
//! relays that are gone, and of rows that their application has finished or deleted. All by the database's clock.

use std::time::Duration;

use postroom_core::view::Pruned;
use postroom_core::{Retention, StoreError};
use serde_json::json;

use super::query::{Query, number, text};
use crate::executor::Statement;
use crate::mapping::{Death, State};
use crate::sql::{Writer, literal, open, pending};
use crate::store::{Inner, clock};

/// Rows looked at, or removed, in one transaction.
const TURN: usize = 1_000;
/// How long sums of minutes and heartbeats of dead relays are kept.
const DAY: Duration = Duration::from_hours(24);
/// Nothing is kept for longer than that; databases cannot count back for ever.
const KEPT_MAX: Duration = Duration::from_hours(24 * 365 * 100);

pub(super) async fn prune(inner: &Inner, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    // The table is its owner's: rows go only where the mapping says so.
    if let Some(keep) = retention.delivered.filter(|_| inner.mapping.prunes) {
        pruned.events = rows(inner, keep, dry_run).await?;
    }
    if !dry_run {
        yesterday(inner).await?;
        beside(inner).await?;
        entries(inner).await?;
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
        let keep = query.value(micros(keep));
        query.and(format!("{} < {}", query.occurred_at(), query.writer.before(&query.now(), &keep)));
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
        let list: Vec<serde_json::Value> = chosen.iter().map(|row| json!({"id": row.first()})).collect();
        let writer = inner.writer();
        let list = json!(list).to_string();
        let mut statements = Vec::new();
        if let Some(archive) = &inner.mapping.archive {
            let copy = crate::sql::operate::archive(&inner.mapping, &writer, inner.settled_columns(), archive);
            statements.push(Statement::new(copy).bind(&inner.mapping_name).bind(clock()).bind(list.clone()));
        }
        let delete = crate::sql::operate::delete(&inner.mapping, &writer);
        statements.push(Statement::new(delete).bind(&inner.mapping_name).bind(clock()).bind(list));
        let found = inner.executor.run("prune", statements).await?;
        let gone = found.last().map_or(0, Vec::len) as u64;
        removed += gone;
        if gone == 0 {
            return Ok(removed);
        }
    }
}

/// What the side table knows of rows that are neither to be tried again nor dead letters any more: their application has
/// finished, deleted or reset them. A turn at a time, in the order of the side table's primary key.
async fn beside(inner: &Inner) -> Result<(), StoreError> {
    let writer = inner.writer();
    let (sidecar, routes) = (writer.own("sidecar"), writer.own("adopted_route"));
    let stale = is_stale(inner, &writer);
    let page = format!(
        "select s.row_id, {}, case when {stale} then 'yes' end from {sidecar} s \
         where s.mapping = $1 and s.row_id > $2 order by s.row_id limit {TURN}",
        writer.micros("s.since")
    );
    // Keys that waited behind them go on: whoever has walked past their rows begins anew.
    let freed = format!("update {routes} set unblocked = unblocked + 1 where mapping = $1");
    let delete = format!(
        "delete from {sidecar} as s where s.mapping = $1 and {stale} and exists (select 1 from {} \
         where x.id = s.row_id and x.since = {})",
        writer.unpacked("$2", &["id", "since"]),
        writer.micros("s.since")
    );
    let mut after = String::new();
    loop {
        let look = Statement::new(page.as_str()).bind(&inner.mapping_name).bind(after);
        let found = inner.executor.look("prune", vec![look]).await?.into_iter().next().unwrap_or_default();
        let Some(last) = found.last().and_then(|row| text(row, 0)) else { return Ok(()) };
        let gone: Vec<serde_json::Value> = found
            .iter()
            .filter(|row| text(row, 2).is_some())
            .map(|row| json!({"id": text(row, 0), "since": text(row, 1)}))
            .collect();
        if !gone.is_empty() {
            let freed = Statement::new(freed.as_str()).bind(&inner.mapping_name);
            let delete = Statement::new(delete.as_str()).bind(&inner.mapping_name).bind(json!(gone).to_string());
            inner.executor.run("prune", vec![freed, delete]).await?;
        }
        after = last;
    }
}

/// Whether what the side table knows of a row is over.
fn is_stale(inner: &Inner, writer: &Writer<'_>) -> String {
    let mapping = &inner.mapping;
    let row =
        |writer: &Writer<'_>| format!("{} = {}", writer.of(&mapping.row), writer.fitting(&mapping.row, "s.row_id"));
    let there =
        |so: String| format!("exists (select 1 from {} t where {} and {so})", mapping.table.quoted(), row(writer));
    let is_open = open(mapping, writer);
    let dead = match (&mapping.death, &mapping.state) {
        (Death::Word(word), State::Words { path, .. }) => {
            let word = format!("{} = {}", writer.text(path), literal(word));
            match &mapping.log {
                Some(log) => {
                    let moved = Writer { columns: &inner.log, ..writer.clone() };
                    let moved =
                        format!("exists (select 1 from {} t where {} and {word})", log.table.quoted(), row(&moved));
                    format!("({moved} or {})", there(is_open.clone()))
                }
                None => there(word),
            }
        }
        (Death::AsDone, _) => there(format!("(s.held = 1 or not ({}))", pending(mapping, writer))),
        _ => there(is_open.clone()),
    };
    format!("not (s.state = 'dead' and {dead} or s.state <> 'dead' and {})", there(is_open))
}

/// Entries of what further routes have delivered of rows that somebody else has finished or deleted since.
async fn entries(inner: &Inner) -> Result<(), StoreError> {
    if inner.mapping.marked_by.is_none() {
        return Ok(());
    }
    let swept = crate::sql::further::swept(&inner.mapping, &inner.writer(), TURN);
    loop {
        let swept = Statement::new(swept.as_str()).bind(&inner.mapping_name);
        let gone = inner.executor.run("prune", vec![swept]).await?.into_iter().map(|rows| rows.len()).sum::<usize>();
        if gone < TURN {
            return Ok(());
        }
    }
}

/// Tries of rows that the side table no longer knows, a turn at a time in the order of rows.
async fn attempts(inner: &Inner, keep: Duration, dry_run: bool) -> Result<u64, StoreError> {
    let writer = inner.writer();
    let (table, sidecar) = (writer.own("adopted_attempt"), writer.own("sidecar"));
    let condition = format!(
        "a.mapping = $1 and a.at < {} and $2 is not null \
         and not exists (select 1 from {sidecar} s where s.mapping = a.mapping and s.row_id = a.row_id and a.route is null) \
         and not exists (select 1 from {} d where d.mapping = a.mapping and d.row_id = a.row_id and d.route = a.route)",
        writer.before(&writer.now("$2"), "$3"),
        writer.own("adopted_delivery"),
    );
    let of = |text: &str| Statement::new(text).bind(&inner.mapping_name).bind(clock()).bind(micros(keep));
    if dry_run {
        let count = format!("select cast(count(*) as text) from {table} a where {condition}");
        let found = inner.executor.look("prune", vec![of(&count)]).await?;
        return Ok(found.into_iter().flatten().next().map(|row| number(&row, 0)).unwrap_or_default());
    }
    let page = format!(
        "select max(p.row_id) from (select a.row_id from {table} a where a.mapping = $1 and a.row_id > $2 \
         order by a.row_id limit {TURN}) p"
    );
    let delete =
        format!("delete from {table} as a where a.row_id > $4 and a.row_id <= $5 and {condition} returning row_id");
    let (mut removed, mut after) = (0, String::new());
    loop {
        let look = Statement::new(page.as_str()).bind(&inner.mapping_name).bind(&after);
        let found = inner.executor.look("prune", vec![look]).await?;
        let Some(last) = found.into_iter().flatten().next().and_then(|row| text(&row, 0)) else { return Ok(removed) };
        let found = inner.executor.run("prune", vec![of(&delete).bind(&after).bind(&last)]).await?;
        removed += found.into_iter().map(|rows| rows.len() as u64).sum::<u64>();
        after = last;
    }
}

/// Sums of minutes, and heartbeats of relays that have been gone for a day and hold nothing.
async fn yesterday(inner: &Inner) -> Result<(), StoreError> {
    let writer = inner.writer();
    let before = format!("{} and $1 is not null", writer.before(&writer.now("$1"), "$2"));
    let minutes = format!("delete from {} where source = $3 and minute < {before}", writer.own("stat"));
    let relays = format!(
        "delete from {} where source = $3 and alive_until < {before} \
         and not exists (select 1 from {} where mapping = $3 and holder = boot)",
        writer.own("relay"),
        writer.own("adopted_route")
    );
    let of = |text: String| Statement::new(text).bind(clock()).bind(micros(DAY)).bind(&inner.mapping_name);
    inner.executor.run("prune", vec![of(minutes), of(relays)]).await.map(drop)
}

/// Replays that have ended, which are few.
async fn replays(inner: &Inner, keep: Duration) -> Result<(), StoreError> {
    let writer = inner.writer();
    let (table, before) = (writer.own("replay"), writer.before(&writer.now("$2"), "$3"));
    let delete = format!("delete from {table} where source = $1 and ended_at < {before} and $2 is not null");
    let delete = Statement::new(delete).bind(&inner.mapping_name).bind(clock()).bind(micros(keep));
    inner.executor.run("prune", vec![delete]).await.map(drop)
}

fn micros(keep: Duration) -> String {
    keep.min(KEPT_MAX).as_micros().to_string()
}
