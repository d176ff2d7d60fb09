//! Did we lose anything? The answer by counting, on one snapshot.

use postroom_core::StoreError;
use postroom_core::view::{AuditRow, Counts};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::events::count;
use crate::source::checkpoint::parse_ranges;
use crate::store::Inner;

pub(super) async fn audit(inner: &Inner) -> Result<Vec<AuditRow>, StoreError> {
    let store = inner.name.clone();
    inner.db.read("audit", move |conn| Box::pin(async move { Ok(rows(conn, &store).await?) })).await
}

/// The comparison of every route, by name.
pub(super) async fn rows(conn: &mut SqliteConnection, store: &str) -> Result<Vec<AuditRow>, sqlx::Error> {
    let rows = sqlx::query(include_str!("../sql/audit.sql")).fetch_all(conn).await?;
    rows.iter().map(|row| compare(store, row)).collect()
}

fn compare(store: &str, row: &SqliteRow) -> Result<AuditRow, sqlx::Error> {
    let counts = counts(row)?;
    let in_log = count(row.try_get("in_log")?);
    let unsettled = parse_ranges(row.try_get("unsettled")?)?.len();
    let open = count(row.try_get("open")?);
    Ok(AuditRow {
        store: store.to_owned(),
        route: row.try_get("route")?,
        lane: row.try_get("lane")?,
        rows: in_log,
        unsettled,
        open,
        counts,
        differences: AuditRow::compare(&counts, in_log, unsettled, open),
    })
}

/// The counts of a checkpoint.
pub(super) fn counts(row: &SqliteRow) -> Result<Counts, sqlx::Error> {
    let get = |column| row.try_get(column).map(count);
    Ok(Counts {
        base: get("base")?,
        seen: get("seen")?,
        delivered: get("delivered")?,
        filtered: get("filtered")?,
        parked: get("parked")?,
        recovered: get("recovered")?,
        discarded: get("discarded")?,
    })
}
