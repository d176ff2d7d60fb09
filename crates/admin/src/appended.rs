//! How many events were appended over time.

use std::time::Duration;

use jiff::Timestamp;
use postroom_core::StoreError;

use crate::backend::{Backend, run_read};
use crate::statement::{Dialect, Statement};
use crate::timestamp;
use crate::view::AppendedRow;

/// Counts events by intervals. PostgreSQL finds the newest ones by the block ranges of their time.
pub(crate) async fn list(
    backend: &dyn Backend,
    from: Timestamp,
    interval: Duration,
) -> Result<Vec<AppendedRow>, StoreError> {
    let store = backend.store().to_owned();
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX).max(1);
    run_read(backend, "appended", move |session| {
        Box::pin(async move {
            let micros = match session.dialect() {
                Dialect::Postgres => "(extract(epoch from appended_at) * 1000000)::int8",
                Dialect::Sqlite => "appended_at",
            };
            let query = Statement::new(format!(
                "select {micros} / $2 as number, count(*) as appended from postroom.log where appended_at >= $1 \
                 group by 1 order by 1"
            ));
            let rows = session.fetch(query.bind(from).bind(interval)).await?;
            let row = |row: &crate::row::Row| {
                Ok(AppendedRow {
                    store: store.clone(),
                    at: timestamp(row.int("number")?.saturating_mul(interval)),
                    appended: row.count("appended")?,
                })
            };
            Ok(rows.iter().map(row).collect::<Result<_, StoreError>>()?)
        })
    })
    .await
}
