//! The log: appending by hand, listing, and what the store holds in all.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_admin::view::{Contents, EVENTS_COUNTED_MAX, EventRow, StoreRow};
use postroom_admin::{Page, Selection, once_key};
use postroom_core::{Event, Filter, Outbox as _, StoreError};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, QueryBuilder, Row as _};

use super::selection;
use crate::database::Session;
use crate::error::Fault;
use crate::events::{COLUMNS as LOGGED, Logged, count, event_row, signed};
use crate::identity::Identity;
use crate::routes;
use crate::store::{self, Inner};

/// How many of the newest events are looked at for `unmatched`, of all lanes together.
const UNMATCHED_AMONG: i64 = 10_000;

pub(super) async fn append(inner: &Arc<Inner>, events: &[Event]) -> Result<Vec<String>, StoreError> {
    let store = store::PostgresStore { inner: Arc::clone(inner) };
    let mut tx = store.begin().await?;
    let appended = store.append_many(&mut tx, events).await?;
    tx.commit().await?;
    Ok(appended.ids().to_vec())
}

pub(super) async fn append_once(inner: &Arc<Inner>, events: &[Event]) -> Result<Vec<String>, StoreError> {
    let store = store::PostgresStore { inner: Arc::clone(inner) };
    let mut tx = store.begin().await?;
    let mut ids = Vec::new();
    for event in events {
        ids.extend_from_slice(store.append_once(&mut tx, &once_key(&event.id), event).await?.ids());
    }
    tx.commit().await?;
    Ok(ids)
}

/// Reads the events of one page. Their numbers lie close together, so the index of each lane is walked from the first to the
/// last of them.
pub(super) async fn contents(
    inner: &Inner,
    positions: &[i64],
    with_payload: bool,
) -> Result<BTreeMap<i64, Contents>, StoreError> {
    let (Some(first), Some(last)) = (positions.iter().min().copied(), positions.iter().max().copied()) else {
        return Ok(BTreeMap::new());
    };
    let (positions, lanes) = (positions.to_vec(), i32::from(inner.partitioning.lanes));
    let of = |table: &str| {
        format!(
            "select {LOGGED}, case when $5 then l.payload end from generate_series(0, $4 - 1) as g(lane) \
             cross join lateral (select * from postroom.{table} t where t.lane = g.lane::int2 \
             and t.seq between $1 and $2 and t.seq = any($3)) l"
        )
    };
    let text = inner.db.sql.made(&format!("{} union all {}", of("log"), of("evacuated")));
    inner
        .db
        .read("events", move |session| {
            Box::pin(async move {
                let rows = session.sql.query_made(text.into()).bind(first).bind(last).bind(positions);
                let rows = rows.bind(lanes).bind(with_payload).persistent(false).fetch_all(&mut *session.conn).await?;
                let contents = rows.iter().map(|row| {
                    let logged = Logged::read(row)?;
                    Ok((logged.seq, Contents::of(&logged.event, with_payload)))
                });
                Ok(contents.collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}

/// The columns of a list; the payload stays where it is.
const COLUMNS: &str = "l.seq, l.id, l.type, l.key, l.aggregate_type, l.aggregate_id, l.tenant, \
     l.occurred_at, l.available_at, l.appended_at, l.payload_bytes";

pub(super) async fn list(inner: &Inner, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError> {
    let (order, limit) = match page {
        Page::Newest { limit, .. } => ("desc", signed(limit as u64)),
        Page::Oldest { limit, .. } => ("asc", signed(limit as u64)),
    };
    // The BRIN indexes know where a key is, and not that it is everywhere: in a stretch of the log its lane is walked.
    let is_stretch = matches!(page, Page::Newest { above: 1.., .. });
    let by_index = selection::is_narrow(which) && (!is_stretch || !which.ids.is_empty());
    // Numbers are in order within each lane: the first of every lane, or of the key's own, and the first of those.
    let mut query = if by_index {
        inner.db.sql.builder(&format!("select * from (select {COLUMNS} from postroom.event l where "))
    } else {
        let lanes = i32::from(inner.partitioning.lanes);
        let mut query = inner.db.sql.builder("select e.* from ");
        match &which.key {
            Some(key) => {
                query.push("(select (hashtextextended(").push_bind(key.clone());
                query.push(", 0) & 9223372036854775807) % ").push_bind(lanes).push(")");
            }
            None => {
                query.push("generate_series(0, ").push_bind(lanes - 1).push(")");
            }
        }
        let each = format!(
            " as g(lane) cross join lateral (select {COLUMNS} from postroom.event l where l.lane = g.lane::int2 and "
        );
        query.push(inner.db.sql.made(&each));
        query
    };
    // Where the BRIN indexes find it, an index on numbers has nothing to add but its own pages.
    place(&mut query, page, if by_index { "l.seq + 0" } else { "l.seq" });
    selection::on_log(&mut query, which);
    if by_index {
        query.push(" offset 0");
    } else {
        query.push(format_args!(" order by l.seq {order} limit ")).push_bind(limit);
    }
    query.push(format_args!(") e order by e.seq {order} limit ")).push_bind(limit);
    let store = inner.name.clone();
    inner
        .db
        .read("events", move |session| {
            Box::pin(async move {
                let rows = query.build().persistent(false).fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| event_row(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn place(query: &mut QueryBuilder<Postgres>, page: Page, seq: &str) {
    match page {
        Page::Newest { before, above, .. } => {
            query.push(format_args!("{seq} < ")).push_bind(before.unwrap_or(i64::MAX));
            query.push(format_args!(" and {seq} > ")).push_bind(above)
        }
        Page::Oldest { after, .. } => query.push(format_args!("{seq} > ")).push_bind(after),
    };
}

/// Whether a filter wants the event of a row with `type`, `aggregate_type` and `tenant`.
pub(super) fn wanted(filter: &Filter, row: &PgRow) -> Result<bool, sqlx::Error> {
    Ok(filter.matches_parts(row.try_get("type")?, row.try_get("aggregate_type")?, row.try_get("tenant")?))
}

pub(super) async fn store(inner: &Arc<Inner>) -> Result<StoreRow, StoreError> {
    let shared = Arc::clone(inner);
    inner.db.read("store", move |session| Box::pin(async move { store_row(session, &shared).await })).await
}

async fn store_row(session: &mut Session, inner: &Inner) -> Result<StoreRow, Fault> {
    let row = session.sql.query(include_str!("../sql/store.sql")).bind(inner.schema.clone());
    let row = row.fetch_one(&mut *session.conn).await?;
    let identity = Identity::read(session).await?;
    let events = count(row.try_get("events")?);
    Ok(StoreRow {
        store: inner.name.clone(),
        kind: "postgres",
        reachable: true,
        schema_version: Some(row.try_get("schema_version")?),
        events: Some(events),
        events_estimated: events > EVENTS_COUNTED_MAX,
        bytes: Some(count(row.try_get("bytes")?)),
        unmatched: Some(unmatched(session, inner.partitioning.lanes).await?),
        message: identity.may_be_a_copy().or_else(|| identity.is_promoted()).unwrap_or_default(),
    })
}

async fn unmatched(session: &mut Session, lanes: i16) -> Result<u64, sqlx::Error> {
    let routes = routes::all(session).await?;
    let newest = session.sql.query(
        "select l.type, l.aggregate_type, l.tenant from generate_series(0, $1 - 1) as g(lane) cross join lateral ( \
           select * from postroom.event l where l.lane = g.lane::int2 order by l.seq desc limit $2) l",
    );
    let each = (UNMATCHED_AMONG / i64::from(lanes)).max(1);
    let rows = newest.bind(i32::from(lanes)).bind(each).fetch_all(&mut *session.conn).await?;
    let mut unmatched = 0;
    for row in &rows {
        let mut matched = false;
        for route in &routes {
            matched |= wanted(&route.filter, row)?;
        }
        unmatched += u64::from(!matched);
    }
    Ok(unmatched)
}
