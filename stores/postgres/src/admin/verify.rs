//! Did we lose anything? The answer by counting, on one snapshot.

use postroom_admin::view::VerifyRow;
use postroom_core::StoreError;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::lanes::counts;
use crate::database::Session;
use crate::error::Fault;
use crate::events::count;
use crate::routes;
use crate::store::Inner;

/// The comparison of every route and lane, in order.
pub(super) async fn verify(inner: &Inner) -> Result<Vec<VerifyRow>, StoreError> {
    let store = inner.name.clone();
    inner.db.write_long("verify", move |session| Box::pin(async move { rows(session, &store).await })).await
}

async fn rows(session: &mut Session, store: &str) -> Result<Vec<VerifyRow>, Fault> {
    let rows = session.sql.query(include_str!("../sql/verify_counts.sql")).fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| compare(store, row)).collect()
}

fn compare(store: &str, row: &PgRow) -> Result<VerifyRow, Fault> {
    let route: String = row.try_get("route")?;
    if row.try_get::<Option<i64>, _>("hwm")?.is_none() {
        return Err(routes::no_checkpoint(&route).into());
    }
    let counts = counts(row)?;
    let get = |column| row.try_get(column).map(count);
    let (rows, unsettled, open) = (get("rows")?, get("unsettled")?, get("open")?);
    Ok(VerifyRow {
        store: store.to_owned(),
        route,
        lane: number(row.try_get("lane")?),
        rows,
        unsettled,
        open,
        counts,
        differences: VerifyRow::compare(&counts, rows, unsettled, open),
    })
}

/// A lane's number as it is shown.
pub(super) fn number(lane: i16) -> u32 {
    u32::try_from(lane).unwrap_or(0)
}
