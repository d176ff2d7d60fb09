//! Did we lose anything? The answer by counting, on one snapshot.

use postroom_admin::view::{Counts, VerifyRow};
use postroom_core::StoreError;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::events::count;
use crate::source::checkpoint::parse_ranges;
use crate::store::Inner;

pub(super) async fn verify(inner: &Inner) -> Result<Vec<VerifyRow>, StoreError> {
    let store = inner.name.clone();
    inner.db.read("verify", move |conn| Box::pin(async move { Ok(rows(conn, &store).await?) })).await
}

/// The comparison of every route, by name.
pub(super) async fn rows(conn: &mut SqliteConnection, store: &str) -> Result<Vec<VerifyRow>, sqlx::Error> {
    let rows = sqlx::query(include_str!("../sql/verify_counts.sql")).fetch_all(conn).await?;
    rows.iter().map(|row| compare(store, row)).collect()
}

fn compare(store: &str, row: &SqliteRow) -> Result<VerifyRow, sqlx::Error> {
    let counts = counts(row)?;
    let in_log = count(row.try_get("in_log")?);
    let unsettled = parse_ranges(row.try_get("unsettled")?)?.len();
    let open = count(row.try_get("open")?);
    Ok(VerifyRow {
        store: store.to_owned(),
        route: row.try_get("route")?,
        lane: row.try_get("lane")?,
        rows: in_log,
        unsettled,
        open,
        counts,
        differences: VerifyRow::compare(&counts, in_log, unsettled, open),
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
        replayed: count(row.try_get("replayed")?),
        discarded: get("discarded")?,
    })
}
