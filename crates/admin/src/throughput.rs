//! Throughput: what routes did, minute by minute.

use jiff::Timestamp;
use postroom_core::StoreError;

use crate::backend::{Backend, run_read};
use crate::row::Row;
use crate::statement::Statement;
use crate::timestamp;
use crate::view::ThroughputRow;

const MINUTE: i64 = 60_000_000;

/// Lists what one route or every route did per minute since `from`. Served by the table's primary key, (source, route, minute).
pub async fn list(
    backend: &dyn Backend,
    route: Option<&str>,
    from: Timestamp,
) -> Result<Vec<ThroughputRow>, StoreError> {
    let (store, route) = (backend.store().to_owned(), route.map(str::to_owned));
    run_read(backend, "throughput", move |session| {
        Box::pin(async move {
            let mut query = Statement::new(
                "select route, minute, delivered, retried, dead from postroom.stat where source = $1 and minute >= $2",
            )
            .bind(session.source())
            .bind(timestamp(from.as_microsecond().div_euclid(MINUTE).saturating_mul(MINUTE)));
            if let Some(route) = route {
                query.push(" and route = ").push_value(route);
            }
            query.push(" order by route, minute");
            let rows = session.fetch(query).await?;
            Ok(rows.iter().map(|row| minute(&store, row)).collect::<Result<_, _>>()?)
        })
    })
    .await
}

fn minute(store: &str, row: &Row) -> Result<ThroughputRow, StoreError> {
    Ok(ThroughputRow {
        store: store.to_owned(),
        route: row.text("route")?,
        minute: row.time("minute")?,
        delivered: row.count("delivered")?,
        retried: row.count("retried")?,
        dead: row.count("dead")?,
    })
}
