//! Dead letters by what they died of.

use postroom_core::view::DeadGroup;
use postroom_core::{DEAD_GROUPED_MAX, Selection, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::selection;
use crate::clock::{Time, timestamp};
use crate::events::{count, signed};
use crate::store::Inner;

/// An event of a delivery, which is in the log or evacuated: looked up one by one, or the planner might join the whole log.
const EVENT: &str = "cross join lateral \
     (select * from postroom.event e where e.lane = d.lane and e.seq = d.seq limit 1) l";

/// The newest ones are found by `delivery_dead`, their events by each leaf's (lane, seq).
pub(super) async fn dead(inner: &Inner, which: &Selection, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
    let sql = &inner.db.sql;
    let mut query = sql.builder(
        "select g.*, l.id, d.error from (select d.route, d.code, l.type, count(*) as count, \
         count(distinct coalesce(l.key, l.aggregate_id)) as keys, min(d.since) as first_at, max(d.since) as last_at, \
         max(d.handle) as handle from (select * from postroom.delivery d where d.state = 'dead'",
    );
    selection::on_delivery(&mut query, which);
    query.push(" order by d.seq desc limit ").push_bind(signed(DEAD_GROUPED_MAX));
    query.push(sql.made(&format!(") d {EVENT} where true")));
    selection::on_log(&mut query, which);
    query.push(" group by d.route, d.code, l.type order by count(*) desc, d.route, d.code, l.type limit ");
    query.push_bind(signed(limit as u64));
    query.push(sql.made(&format!(
        ") g join postroom.delivery d on d.handle = g.handle {EVENT} order by g.count desc, g.route, g.code, g.type"
    )));
    let store = inner.name.clone();
    inner
        .db
        .read("dead", move |session| {
            Box::pin(async move {
                let rows = query.build().persistent(false).fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| group(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn group(store: &str, row: &PgRow) -> Result<DeadGroup, sqlx::Error> {
    let time = |column| row.try_get::<Time, _>(column).map(|at| timestamp(at.0));
    Ok(DeadGroup {
        store: store.to_owned(),
        route: row.try_get("route")?,
        code: row.try_get("code")?,
        event_type: row.try_get("type")?,
        count: count(row.try_get("count")?),
        keys: count(row.try_get("keys")?),
        first_at: time("first_at")?,
        last_at: time("last_at")?,
        sample: row.try_get("id")?,
        error: row.try_get("error")?,
    })
}
