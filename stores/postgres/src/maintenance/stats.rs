//! How large things are, and who keeps the server from cleaning up.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::view::{Horizon, PartitionStats, StoreGauges, StoreStats, TableStats};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::count;
use crate::store::Inner;

/// Up to this size a partition's events are counted; beyond it the server's estimate must do.
const COUNTED_BYTES_MAX: i64 = 16 << 20;

pub(super) async fn collect(session: &mut Session, inner: &Inner) -> Result<StoreStats, Fault> {
    Ok(StoreStats {
        store: inner.name.clone(),
        partitions: partitions(session, inner).await?,
        tables: tables(session, inner).await?,
        last_number: number(session, "select last_value - (not is_called)::int from postroom.log_seq").await?,
        truncated: count(number(session, "select coalesce(sum(rows), 0)::int8 from postroom.truncated").await?),
        checkpoints: count(
            number(session, "select count(*) from (select from postroom.checkpoint limit 1000000) c").await?,
        ),
        horizon: horizon(session).await?,
    })
}

async fn number(session: &mut Session, text: &'static str) -> Result<i64, Fault> {
    Ok(session.sql.scalar(text).fetch_one(&mut *session.conn).await?)
}

pub(super) async fn partitions(session: &mut Session, inner: &Inner) -> Result<Vec<PartitionStats>, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/partitions.sql")).bind(inner.clock());
    let rows = query.fetch_all(&mut *session.conn).await?;
    let mut partitions = Vec::new();
    for row in &rows {
        let number: i32 = row.try_get("partition")?;
        let mut partition = PartitionStats {
            partition: u32::try_from(number).unwrap_or_default(),
            current: row.try_get("current")?,
            rows: count(row.try_get("estimate")?),
            rows_estimated: true,
            bytes: count(row.try_get("bytes")?),
            oldest: None,
            newest: None,
        };
        if row.try_get("readable")? {
            look_into(session, &mut partition, row.try_get::<i64, _>("heap")? <= COUNTED_BYTES_MAX).await?;
        }
        partitions.push(partition);
    }
    Ok(partitions)
}

/// Adds what only the partition itself knows.
async fn look_into(session: &mut Session, partition: &mut PartitionStats, counted: bool) -> Result<(), Fault> {
    let text =
        include_str!("../sql/maintenance/partition.sql").replace("{partition}", &partition.partition.to_string());
    let query = session.sql.query_made(Arc::from(session.sql.made(&text))).bind(counted);
    let row = query.fetch_one(&mut *session.conn).await?;
    partition.oldest = time(&row, "oldest")?;
    partition.newest = time(&row, "newest")?;
    if let Some(rows) = row.try_get::<Option<i64>, _>("rows")? {
        (partition.rows, partition.rows_estimated) = (count(rows), false);
    }
    Ok(())
}

async fn tables(session: &mut Session, inner: &Inner) -> Result<Vec<TableStats>, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/tables.sql")).bind(inner.schema.clone());
    let rows = query.fetch_all(&mut *session.conn).await?;
    let table = |row: &PgRow| {
        Ok(TableStats {
            table: row.try_get("name")?,
            rows: count(row.try_get("rows")?),
            dead_rows: count(row.try_get("dead")?),
            bytes: count(row.try_get("bytes")?),
        })
    };
    rows.iter().map(table).collect()
}

pub(super) async fn horizon(session: &mut Session) -> Result<Option<Horizon>, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/horizon.sql"));
    let Some(row) = query.fetch_optional(&mut *session.conn).await? else { return Ok(None) };
    Ok(Some(Horizon {
        age_transactions: count(row.try_get::<Option<i32>, _>("age")?.unwrap_or_default().into()),
        kind: row.try_get("kind")?,
        name: row.try_get("name")?,
        detail: row.try_get("detail")?,
        since: time(&row, "since")?,
    }))
}

pub(super) async fn gauges(session: &mut Session) -> Result<StoreGauges, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/gauges.sql"));
    let row = query.fetch_one(&mut *session.conn).await?;
    let age = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(StoreGauges { horizon_age: age(row.try_get("horizon")?), oldest_writer_age: age(row.try_get("writer")?) })
}

pub(super) fn time(row: &PgRow, column: &str) -> Result<Option<postroom_core::Timestamp>, sqlx::Error> {
    Ok(row.try_get::<Option<Time>, _>(column)?.map(|at| timestamp(at.0)))
}
