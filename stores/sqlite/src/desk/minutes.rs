//! What routes did, minute by minute.

use postroom_core::view::MinuteRow;
use postroom_core::{StoreError, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row};

use crate::clock::{micros, timestamp};
use crate::events::count;
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;

/// Served by the table's primary key, (route, minute).
pub(super) async fn list(inner: &Inner, route: Option<&str>, from: Timestamp) -> Result<Vec<MinuteRow>, StoreError> {
    let mut query = QueryBuilder::new("select * from postroom_stat where minute >= ");
    query.push_bind(micros(from).div_euclid(MINUTE));
    if let Some(route) = route {
        query.push(" and route = ").push_bind(route.to_owned());
    }
    query.push(" order by route, minute");
    let store = inner.name.clone();
    inner
        .db
        .read("minutes", move |conn| {
            Box::pin(async move {
                let rows = query.build().fetch_all(conn).await?;
                Ok(rows.iter().map(|row| minute(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn minute(store: &str, row: &SqliteRow) -> Result<MinuteRow, sqlx::Error> {
    let sum = |column| row.try_get(column).map(count);
    Ok(MinuteRow {
        store: store.to_owned(),
        route: row.try_get("route")?,
        minute: timestamp(row.try_get::<i64, _>("minute")?.saturating_mul(MINUTE)),
        delivered: sum("delivered")?,
        retried: sum("retried")?,
        dead: sum("dead")?,
    })
}
