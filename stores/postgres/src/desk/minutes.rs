//! What routes did, minute by minute. It is written down by `prune`, so this minute is not in it.

use postroom_core::view::MinuteRow;
use postroom_core::{StoreError, Timestamp};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::clock::{Time, micros, timestamp};
use crate::events::count;
use crate::store::Inner;

const MINUTE: i64 = 60_000_000;

pub(super) async fn list(inner: &Inner, route: Option<&str>, from: Timestamp) -> Result<Vec<MinuteRow>, StoreError> {
    let (store, route) = (inner.name.clone(), route.map(str::to_owned));
    let from = Time(micros(from).div_euclid(MINUTE).saturating_mul(MINUTE));
    inner
        .db
        .read("minutes", move |session| {
            Box::pin(async move {
                let rows = session.sql.query(include_str!("../sql/minutes.sql")).bind(route).bind(from);
                let rows = rows.fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| minute(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn minute(store: &str, row: &PgRow) -> Result<MinuteRow, sqlx::Error> {
    let sum = |column| row.try_get(column).map(count);
    Ok(MinuteRow {
        store: store.to_owned(),
        route: row.try_get("route")?,
        minute: timestamp(row.try_get::<Time, _>("minute")?.0),
        delivered: sum("delivered")?,
        retried: sum("retried")?,
        dead: sum("dead")?,
    })
}
