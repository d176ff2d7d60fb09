//! Readers of the log: the store's, and those that do it another way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{
    Budget, Delivery, Receipt, RelayIdentity, RouteSpec, Settlement, Source, StartFrom, Store as _, Verdict, new_id,
};
use postroom_postgres::PostgresStore;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::position::checker::Fact;
use crate::position::shop::{Session, Shop};

/// Looks once, and says what came.
pub(crate) trait Reader {
    async fn read(&mut self) -> Vec<Fact>;
}

/// The route all readers of the store have.
pub(crate) fn route() -> RouteSpec {
    RouteSpec::new("shipping").start_from(StartFrom::Beginning)
}

/// A relay that was started just now.
pub(crate) fn relay(lease: Duration) -> RelayIdentity {
    RelayIdentity { name: "here".to_owned(), boot: new_id(), version: "0".to_owned(), lease }
}

/// An event as it was handed out.
pub(crate) fn fact(delivery: &Delivery) -> Fact {
    let payload: serde_json::Value = delivery.event.payload_as().unwrap();
    let n = payload["n"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap();
    Fact { id: delivery.event.id.clone(), key: delivery.event.key.clone().unwrap(), n }
}

/// It went out.
pub(crate) fn delivered(delivery: &Delivery) -> Settlement {
    let verdict = Verdict::Delivered(Receipt::default());
    Settlement { handle: delivery.handle, lane: delivery.lane, verdict, took: Duration::ZERO }
}

/// The store itself: what is taken is settled as delivered.
pub(crate) struct StoreReader {
    pub(crate) source: Arc<dyn Source>,
}

impl StoreReader {
    pub(crate) async fn open(store: &PostgresStore) -> Self {
        Self { source: store.source(&relay(Duration::from_secs(30)), &route()).await.unwrap() }
    }
}

impl Reader for StoreReader {
    async fn read(&mut self) -> Vec<Fact> {
        let mut seen = Vec::new();
        loop {
            let take = self.source.take(Budget { rows: 500, bytes: 64 << 20 }).await.unwrap();
            assert_eq!(take.ownership.halted, None);
            let settlements: Vec<Settlement> = take.deliveries.iter().map(delivered).collect();
            self.source.settle(&settlements).await.unwrap();
            seen.extend(take.deliveries.iter().map(fact));
            if !take.more {
                return seen;
            }
        }
    }
}

/// `id > last`, and what was built upon it.
#[derive(Debug)]
pub(crate) struct Cursor {
    session: Session,
    text: &'static str,
    /// Transaction and number of the last one seen.
    last: (i64, i64),
}

impl Cursor {
    /// Everything above the greatest number seen.
    pub(crate) async fn by_number(shop: &Shop) -> Self {
        let text = "select id, key, (convert_from(payload, 'UTF8')::json ->> 'n')::int, tx, seq from log
            where $1 is not null and seq > $2 order by seq limit 500";
        Self { session: shop.session().await, text, last: (0, 0) }
    }

    /// The same, of transactions below all that run.
    pub(crate) async fn by_number_behind_a_gate(shop: &Shop) -> Self {
        let text = "select id, key, (convert_from(payload, 'UTF8')::json ->> 'n')::int, tx, seq from log
            where $1 is not null and seq > $2 and tx < pg_snapshot_xmin(pg_current_snapshot())::text::int8
            order by seq limit 500";
        Self { session: shop.session().await, text, last: (0, 0) }
    }

    /// In order of transactions, of those below all that run.
    pub(crate) async fn by_transaction_behind_a_gate(shop: &Shop) -> Self {
        let text = "select id, key, (convert_from(payload, 'UTF8')::json ->> 'n')::int, tx, seq from log
            where (tx, seq) > ($1, $2) and tx < pg_snapshot_xmin(pg_current_snapshot())::text::int8
            order by tx, seq limit 500";
        Self { session: shop.session().await, text, last: (0, 0) }
    }
}

impl Reader for Cursor {
    async fn read(&mut self) -> Vec<Fact> {
        let statement = sqlx::query(self.text).bind(self.last.0).bind(self.last.1);
        let rows = statement.fetch_all(&mut self.session.conn).await.unwrap();
        if let Some(row) = rows.last() {
            self.last = (row.get(3), row.get(4));
        }
        rows.iter().map(of_row).collect()
    }
}

fn of_row(row: &PgRow) -> Fact {
    Fact { id: row.get(0), key: row.get(1), n: row.get(2) }
}

/// What is wrong with a reader by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    WithoutLate,
    WithoutAbove,
    /// One late row a read, and fresh ones beside it.
    FreshBesideHalfLate,
}

/// The position rule as a test can break it; the store has its own text and its own arithmetic.
#[derive(Debug)]
pub(crate) struct ByPosition {
    pub(crate) session: Session,
    pub(crate) pending: BTreeMap<i64, i64>,
    hwm: i64,
    flaw: Flaw,
}

const BY_POSITION: &str = "
with s as materialized (
  select pg_current_snapshot() as snap, age(pg_snapshot_xmax(pg_current_snapshot())::xid)::int8 as above),
ended as materialized (
  select p.x, p.lo from s, unnest($2::int8[], $3::int8[]) as p(x, lo) where pg_visible_in_snapshot(p.x::text::xid8, s.snap)),
late as (
  select l.* from ended e cross join lateral (
    select * from log where tx = e.x and seq > e.lo and seq <= $1 offset 0) l order by l.seq limit $4),
fresh as (select * from log where seq > $1 order by seq limit 500)
select r.id, r.key, (convert_from(r.payload, 'UTF8')::json ->> 'n')::int, r.seq, s.above,
  pg_snapshot_xmax(s.snap)::text::int8, array(select x::text::int8 from pg_snapshot_xip(s.snap) x)
from s left join (select * from late union all select * from fresh) r on true order by r.seq";

impl ByPosition {
    pub(crate) async fn with(shop: &Shop, flaw: Flaw) -> Self {
        Self { session: shop.session().await, pending: BTreeMap::new(), hwm: 0, flaw }
    }
}

impl Reader for ByPosition {
    async fn read(&mut self) -> Vec<Fact> {
        let before = if self.flaw == Flaw::WithoutLate { BTreeMap::new() } else { self.pending.clone() };
        let bound = if self.flaw == Flaw::FreshBesideHalfLate { 1 } else { i64::MAX };
        let statement = sqlx::query(BY_POSITION)
            .bind(self.hwm)
            .bind(before.keys().copied().collect::<Vec<_>>())
            .bind(before.values().copied().collect::<Vec<_>>())
            .bind(bound);
        let rows = statement.fetch_all(&mut self.session.conn).await.unwrap();
        let (above, xmax): (i64, i64) = (rows[0].get(4), rows[0].get(5));
        let mut running: Vec<i64> = rows[0].get(6);
        if self.flaw != Flaw::WithoutAbove {
            running.extend(xmax..xmax + above);
        }
        self.pending = running.into_iter().map(|x| (x, before.get(&x).copied().unwrap_or(self.hwm))).collect();
        let rows: Vec<&PgRow> = rows.iter().filter(|row| row.get::<Option<i64>, _>(3).is_some()).collect();
        let swept = rows.iter().map(|row| row.get::<i64, _>(3)).find(|seq| *seq <= self.hwm);
        if let (Flaw::FreshBesideHalfLate, Some(swept)) = (self.flaw, swept) {
            self.pending.extend(before.into_iter().map(|(x, lo)| (x, lo.max(swept))));
        }
        self.hwm = rows.last().map_or(self.hwm, |row| row.get::<i64, _>(3).max(self.hwm));
        rows.into_iter().map(of_row).collect()
    }
}
