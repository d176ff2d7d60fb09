//! What goes wrong at the consumer's: ids that are forgotten too early, tables that are shared, effects elsewhere.

use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Acceptance, Inbox as _, Retention};
use sqlx::{AssertSqlSafe, Executor as _};

use crate::hazards::bench::Bench;

async fn accept(bench: &Bench, consumer: &str, id: &str) -> Acceptance {
    let mut tx = bench.store.begin().await.unwrap();
    let acceptance = bench.store.accept(&mut tx, consumer, id).await.unwrap();
    tx.commit().await.unwrap();
    acceptance
}

/// H-79
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_native_inbox_forgets_in_bounded_batches_by_the_databases_clock() {
    let bench = Bench::new().await;
    let schema = &bench.name;
    let watch = format!(
        "create table {schema}.turns (rows int); create function {schema}.turn() returns trigger language plpgsql as \
         $$ begin insert into {schema}.turns select count(*) from gone having count(*) > 0; return null; end $$; \
         create trigger turn after delete on {schema}.inbox referencing old table as gone \
         for each statement execute function {schema}.turn(); \
         insert into {schema}.inbox (consumer, id, accepted_at) \
         select 'erp', n::text, clock_timestamp() - interval '15 days' from generate_series(1, 12000) n"
    );
    bench.store.pool().execute(sqlx::raw_sql(AssertSqlSafe(watch))).await.unwrap();
    assert_eq!(accept(&bench, "erp", "fresh").await, Acceptance::New);
    let retention = Retention { delivered: None, attempts: None, inbox: Some(Duration::from_hours(14 * 24)) };
    assert_eq!(bench.store.admin().prune(&retention, false).await.unwrap().inbox, 12_000);
    assert_eq!(
        bench.one("select string_agg(rows::text, ' ' order by rows) from postroom.turns").await,
        "2000 5000 5000"
    );
    assert_eq!(accept(&bench, "erp", "fresh").await, Acceptance::Duplicate);
    assert_eq!(accept(&bench, "erp", "7").await, Acceptance::New, "what was forgotten is done again");
}

/// H-81: why the effect belongs into the transaction that accepts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_connection_writes_survives_the_rollback_of_its_acceptance() {
    let bench = Bench::new().await;
    let ledger = format!("{}.ledger", bench.name);
    bench.store.pool().execute(AssertSqlSafe(format!("create table {ledger} (way text)"))).await.unwrap();
    let book = |way: &str| AssertSqlSafe(format!("insert into {ledger} values ('{way}')"));
    for _ in 0..2 {
        let mut tx = bench.store.begin().await.unwrap();
        assert_eq!(bench.store.accept(&mut tx, "erp", "e-1").await.unwrap(), Acceptance::New);
        tx.execute(book("the transaction")).await.unwrap();
        bench.store.pool().execute(book("another connection")).await.unwrap();
        tx.rollback().await.unwrap();
    }
    let there = bench.one("select string_agg(way, ', ') from postroom.ledger").await;
    assert_eq!(there, "another connection, another connection", "done twice, and accepted never");
}
