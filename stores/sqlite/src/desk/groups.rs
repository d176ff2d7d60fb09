//! Dead letters by what they died of.

use postroom_core::view::DeadGroup;
use postroom_core::{DEAD_GROUPED_MAX, Selection, StoreError};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row};

use super::selection;
use crate::clock::timestamp;
use crate::events::{count, signed, text};
use crate::store::Inner;

/// The newest ones are found by `postroom_delivery_dead`, their events by number.
pub(super) async fn dead(inner: &Inner, which: &Selection, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
    let mut query = QueryBuilder::new(
        "select g.*, l.id, l.type, d.error from (select d.route, d.code, l.type, count(*) as count, \
         count(distinct coalesce(l.key, l.aggregate_id)) as keys, min(d.since) as first_at, max(d.since) as last_at, \
         max(d.handle) as handle from (select * from postroom_delivery d where d.state = 'dead'",
    );
    selection::on_delivery(&mut query, which);
    query.push(" order by d.seq desc limit ").push_bind(signed(DEAD_GROUPED_MAX));
    query.push(") d join postroom_log l on l.seq = d.seq where true");
    selection::on_log(&mut query, which);
    query.push(" group by d.route, d.code, l.type order by count(*) desc, d.route, d.code, l.type limit ");
    query.push_bind(signed(limit as u64));
    query.push(
        ") g join postroom_delivery d on d.handle = g.handle join postroom_log l on l.seq = d.seq \
         order by g.count desc, g.route, g.code, g.type",
    );
    let store = inner.name.clone();
    inner
        .db
        .read("dead", move |conn| {
            Box::pin(async move {
                let rows = query.build().fetch_all(conn).await?;
                Ok(rows.iter().map(|row| group(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn group(store: &str, row: &SqliteRow) -> Result<DeadGroup, sqlx::Error> {
    Ok(DeadGroup {
        store: store.to_owned(),
        route: row.try_get("route")?,
        code: row.try_get("code")?,
        event_type: text(row, "type")?.into_owned(),
        count: count(row.try_get("count")?),
        keys: count(row.try_get("keys")?),
        first_at: timestamp(row.try_get("first_at")?),
        last_at: timestamp(row.try_get("last_at")?),
        sample: text(row, "id")?.into_owned(),
        error: row.try_get("error")?,
    })
}
