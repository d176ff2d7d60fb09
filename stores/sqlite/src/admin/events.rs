//! The log: appending by hand, listing, and what the store holds in all.

use std::collections::BTreeMap;

use postroom_admin::view::{Contents, EVENTS_COUNTED_MAX, EventRow, StoreRow};
use postroom_admin::{Page, Selection, once_key};
use postroom_core::{Event, StoreError};
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::selection;
use crate::append::insert;
use crate::events::{count, event_row, logged, maybe_text, signed, text};
use crate::routes;
use crate::store::Inner;

/// How many of the newest events are looked at for `unmatched`.
const UNMATCHED_AMONG: i64 = 10_000;

pub(super) async fn append(inner: &Inner, events: &[Event]) -> Result<Vec<String>, StoreError> {
    for event in events {
        inner.check(event)?;
    }
    let (events, now) = (events.to_vec(), inner.now());
    let ids = inner
        .db
        .write("append", move |conn| {
            Box::pin(async move {
                for event in &events {
                    insert(conn, event, now).await?;
                }
                Ok(events.into_iter().map(|event| event.id).collect())
            })
        })
        .await?;
    inner.wake.wake();
    Ok(ids)
}

pub(super) async fn append_once(inner: &Inner, events: &[Event]) -> Result<Vec<String>, StoreError> {
    for event in events {
        inner.check(event)?;
    }
    let (events, now) = (events.to_vec(), inner.now());
    let ids = inner
        .db
        .write("append", move |conn| {
            Box::pin(async move {
                let mut ids = Vec::new();
                for event in &events {
                    let key = sqlx::query(include_str!("../sql/append_once.sql")).bind(once_key(&event.id)).bind(now);
                    if key.execute(&mut *conn).await?.rows_affected() == 1 {
                        insert(conn, event, now).await?;
                        ids.push(event.id.clone());
                    }
                }
                Ok(ids)
            })
        })
        .await?;
    inner.wake.wake();
    Ok(ids)
}

pub(super) async fn contents(
    inner: &Inner,
    positions: &[i64],
    with_payload: bool,
) -> Result<BTreeMap<i64, Contents>, StoreError> {
    let positions = serde_json::json!(positions).to_string();
    inner
        .db
        .read("events", move |conn| {
            Box::pin(async move {
                let rows = sqlx::query(include_str!("../sql/load.sql")).bind(positions).bind(if with_payload {
                    i64::MAX
                } else {
                    -1
                });
                let rows = rows.fetch_all(conn).await?;
                let contents = rows.iter().map(|row| {
                    let logged = logged(row)?;
                    Ok((logged.seq, Contents::of(&logged.event, with_payload)))
                });
                Ok(contents.collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}

/// The columns of a list; the payload stays where it is.
const COLUMNS: &str = "l.seq, l.id, l.type, l.key, l.aggregate_type, l.aggregate_id, l.tenant, \
     l.occurred_at, l.available_at, l.appended_at, octet_length(l.payload) as payload_bytes";

pub(super) async fn list(inner: &Inner, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
    let mut query = QueryBuilder::new(format!("select {COLUMNS} from postroom_log l where "));
    let limit = match page {
        Page::Newest { before, above, limit } => {
            query.push("l.seq < ").push_bind(before.unwrap_or(i64::MAX)).push(" and l.seq > ").push_bind(above);
            limit
        }
        Page::Oldest { after, limit } => {
            query.push("l.seq > ").push_bind(after);
            limit
        }
    };
    selection::on_log(&mut query, which);
    query.push(if matches!(page, Page::Newest { .. }) {
        " order by l.seq desc limit "
    } else {
        " order by l.seq limit "
    });
    query.push_bind(signed(limit as u64));
    let store = inner.name.clone();
    inner
        .db
        .read("events", move |conn| {
            Box::pin(async move {
                let rows = query.build().fetch_all(conn).await?;
                Ok(rows.iter().map(|row| event_row(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

pub(super) async fn store(inner: &Inner) -> Result<StoreRow, StoreError> {
    let name = inner.name.clone();
    inner.db.read("store", move |conn| Box::pin(async move { Ok(store_row(conn, name).await?) })).await
}

/// Events are counted one by one up to 100,000, then by their numbers.
async fn store_row(conn: &mut SqliteConnection, store: String) -> Result<StoreRow, sqlx::Error> {
    let row = sqlx::query(
        "select (select case when n.counted <= 100000 then n.counted \
             else (select max(seq) from postroom_log) - (select min(seq) from postroom_log) + 1 end \
           from (select count(*) as counted from (select 1 from postroom_log limit 100001)) n) as events, \
         (select value from postroom_meta where name = 'schema_version') as schema_version, \
         (select page_count * page_size from pragma_page_count(), pragma_page_size()) as bytes",
    )
    .fetch_one(&mut *conn)
    .await?;
    let unmatched = Some(unmatched(conn).await?);
    let events = count(row.try_get("events")?);
    Ok(StoreRow {
        store,
        kind: "sqlite",
        reachable: true,
        schema_version: Some(row.try_get("schema_version")?),
        events: Some(events),
        events_estimated: events > EVENTS_COUNTED_MAX,
        bytes: Some(count(row.try_get("bytes")?)),
        unmatched,
        message: String::new(),
    })
}

async fn unmatched(conn: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let routes = routes::all(&mut *conn).await?;
    let rows = sqlx::query("select type, aggregate_type, tenant from postroom_log order by seq desc limit ?1")
        .bind(UNMATCHED_AMONG)
        .fetch_all(conn)
        .await?;
    let mut unmatched = 0;
    for row in &rows {
        let (aggregate_type, tenant) = (maybe_text(row, "aggregate_type")?, maybe_text(row, "tenant")?);
        let (event_type, aggregate_type, tenant) = (text(row, "type")?, aggregate_type.as_deref(), tenant.as_deref());
        unmatched += u64::from(!routes.iter().any(|r| r.filter.matches_parts(&event_type, aggregate_type, tenant)));
    }
    Ok(unmatched)
}
