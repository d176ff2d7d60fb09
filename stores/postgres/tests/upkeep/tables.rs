//! What the tables look like, and how large they are.

use std::path::Path;

use postroom_core::{Event, StoreErrorKind};
use postroom_postgres::Postgres;
use sqlx::{Executor, Row};

use crate::bench::{Bench, options};

#[tokio::test]
async fn the_list_of_columns_is_that_of_a_fresh_store() {
    let bench = Bench::new().await;
    let query = sqlx::query(include_str!("../../src/sql/columns.sql")).bind(bench.schema.name().to_owned());
    let rows = query.fetch_all(bench.store.pool()).await.unwrap();
    let line = |row: &sqlx::postgres::PgRow| format!("{} {}\n", row.get::<String, _>(0), row.get::<String, _>(1));
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort();
    let fresh = lines.concat().replace("4 leaves", "{leaves} leaves");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/columns.txt");
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(&path, fresh).unwrap();
    } else {
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept == fresh, "migrations/columns.txt is stale; run this test with POSTROOM_WRITE_DOCS=1\n{fresh}");
    }
}

#[tokio::test]
async fn a_table_changed_by_hand_is_refused_with_the_exact_difference() {
    let bench = Bench::new().await;
    bench.sql("alter table postroom.lane alter column term type int4").await;
    bench.sql("alter table postroom.stat drop column dead").await;
    bench.sql("alter table postroom.inbox add column note text").await;
    bench.sql("alter table postroom.log detach partition postroom.log_3").await;
    bench.sql("create table postroom.mine (x int)").await;
    let error = Postgres::open(options(&bench.schema)).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    let (_, said) = error.message.split_once("changed: ").unwrap();
    assert_eq!(
        said,
        "lane.term is integer not null, not bigint not null; log is 3 leaves, not 4 leaves; stat.dead is missing; \
         inbox.note text was added"
    );
}

#[tokio::test]
async fn a_row_of_meta_that_is_gone_is_named() {
    let bench = Bench::new().await;
    for name in ["system_identifier", "lanes", "schema_version"] {
        bench.sql(&format!("delete from postroom.meta where name = '{name}'")).await;
        let error = Postgres::open(options(&bench.schema)).await.err().unwrap();
        assert_eq!(error.kind, StoreErrorKind::Schema);
        assert!(error.message.contains(&format!("meta has no row {name}")) && !error.hint.is_empty(), "{error}");
    }
}

#[tokio::test]
async fn stats_say_how_large_things_are_and_who_holds_the_horizon() {
    let bench = Bench::new().await;
    for n in 0..3 {
        bench.append(&Event::new("order.placed").key(format!("order-{n}"))).await;
    }
    let mut looks_back = bench.store.begin().await.unwrap();
    looks_back.execute("set transaction isolation level repeatable read; select 1").await.unwrap();
    let stats = bench.upkeep().await.stats().await.unwrap();
    let current: Vec<_> = stats.leaves.iter().filter(|leaf| leaf.current).collect();
    assert_eq!((stats.leaves.len(), current.len(), stats.last_number, stats.truncated), (4, 1, 3, 0));
    assert_eq!(stats.leaves.iter().map(|leaf| leaf.rows).sum::<u64>(), 3);
    assert!(current[0].oldest <= current[0].newest && current[0].newest.is_some() && !current[0].rows_estimated);
    assert!(stats.tables.iter().any(|table| table.table == "delivery" && table.bytes > 0));
    assert!(!stats.tables.iter().any(|table| table.table.starts_with("log")));
    // Another test's session may look back further.
    let horizon = stats.horizon.expect("an open transaction looks back");
    assert!(horizon.kind == "session" && horizon.name.parse::<u32>().is_ok() && horizon.since.is_some(), "{horizon:?}");
    looks_back.rollback().await.unwrap();
}
