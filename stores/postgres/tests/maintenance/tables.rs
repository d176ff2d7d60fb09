//! What the tables look like, and how large they are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Retention, RouteSpec, StartFrom, StoreErrorKind};
use postroom_postgres::PostgresStore;
use postroom_relay::{Relay, RelayOptions, Route};
use postroom_testing::{ManualClock, ScriptedTransport, drain};
use sqlx::{Executor, Row};
use tokio::sync::oneshot;

use crate::maintenance::bench::{Bench, options};

#[tokio::test]
async fn the_list_of_columns_is_that_of_a_fresh_store() {
    let bench = Bench::new().await;
    let query = sqlx::query(include_str!("../../src/sql/columns.sql")).bind(bench.schema.name().to_owned());
    let rows = query.fetch_all(bench.store.pool()).await.unwrap();
    let line = |row: &sqlx::postgres::PgRow| format!("{} {}\n", row.get::<String, _>(0), row.get::<String, _>(1));
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort();
    let fresh = lines.concat().replace("4 partitions", "{partitions} partitions");
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
    let error = PostgresStore::open(options(&bench.schema)).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Schema);
    let (_, said) = error.message.split_once("changed: ").unwrap();
    assert_eq!(
        said,
        "lane.term is integer not null, not bigint not null; log is 3 partitions, not 4 partitions; stat.dead is missing; \
         inbox.note text was added"
    );
}

#[tokio::test]
async fn a_row_of_meta_that_is_gone_is_named() {
    let bench = Bench::new().await;
    for name in ["system_identifier", "lanes", "schema_version"] {
        bench.sql(&format!("delete from postroom.meta where name = '{name}'")).await;
        let error = PostgresStore::open(options(&bench.schema)).await.err().unwrap();
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
    let stats = bench.maintenance().await.stats().await.unwrap();
    let current: Vec<_> = stats.partitions.iter().filter(|partition| partition.current).collect();
    assert_eq!((stats.partitions.len(), current.len(), stats.last_number, stats.truncated), (4, 1, 3, 0));
    assert_eq!(stats.partitions.iter().map(|partition| partition.rows).sum::<u64>(), 3);
    assert!(current[0].oldest <= current[0].newest && current[0].newest.is_some() && !current[0].rows_estimated);
    assert!(stats.tables.iter().any(|table| table.table == "delivery" && table.bytes > 0));
    assert!(!stats.tables.iter().any(|table| table.table.starts_with("log")));
    // Another test's session may look back further.
    let horizon = stats.horizon.expect("an open transaction looks back");
    assert!(horizon.kind == "session" && horizon.name.parse::<u32>().is_ok() && horizon.since.is_some(), "{horizon:?}");
    looks_back.rollback().await.unwrap();
}

/// Fifty old checkpoints of each lane.
const SUPERSEDED: &str = "insert into postroom.checkpoint (route, lane, term, hwm, base, at) \
    select route, lane, 0, 0, 0, now() - interval '1 hour' from postroom.lane cross join generate_series(1, 50)";
/// How many old ones there are.
const OLD: &str = "select count(*) from postroom.checkpoint where at < now() - interval '30 minutes'";

#[tokio::test]
async fn partitions_that_can_never_be_old_do_not_keep_checkpoints_from_going() {
    let bench = Bench::new().await;
    drain(bench.store.clone(), Route::named("mailer").from_beginning().to(ScriptedTransport::new())).await.unwrap();
    bench.sql(SUPERSEDED).await;
    // Four partitions of a day keep two days, and seven are asked for.
    let refused = bench.store.admin().prune(&Retention::default(), false).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Invalid);
    assert_eq!(bench.one(OLD).await, "1", "the newest of them stays");
}

#[tokio::test]
async fn without_a_retention_superseded_checkpoints_go_all_the_same() {
    let bench = Bench::new().await;
    let route = RouteSpec::new("mailer").start_from(StartFrom::Beginning);
    drain(bench.store.clone(), Route::from_spec(route.clone()).to(ScriptedTransport::new())).await.unwrap();
    bench.sql(SUPERSEDED).await;
    let (clock, (stop, stopped)) = (ManualClock::new(), oneshot::channel::<()>());
    let relay = Relay::new(bench.store.clone())
        .options(RelayOptions::default().retention(None))
        .clock(Arc::new(clock.clone()))
        .route(Route::from_spec(route).to(ScriptedTransport::new()));
    let running = tokio::spawn(relay.run(async { drop(stopped.await) }));
    let gone = async {
        while bench.one(OLD).await != "1" {
            clock.advance(Duration::from_secs(30));
        }
    };
    tokio::time::timeout(Duration::from_mins(5), gone).await.unwrap();
    drop(stop);
    clock.advance(Duration::from_mins(1));
    running.await.unwrap().unwrap();
}
