//! Numbers: transaction ids beyond 32 bits, gaps in the log's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use postroom_core::{Event, Outbox as _};
use postroom_testbed::{Cluster, ClusterOptions, as_postgres, program, run};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::hazards::bench::{Bench, LEASE, Worker, append, events};

/// The next transaction of the cluster gets this id, and an epoch before it.
fn reset(cluster: &Cluster, epoch: u32, xid: u32) {
    // The server looks up what became of transactions where this one's page would be.
    let page = cluster.data().join("pg_xact").join(format!("{:04X}", xid / 0x10_0000));
    if !page.exists() {
        run(as_postgres("/bin/dd").args(["if=/dev/zero", "bs=8192", "count=32"]).arg(format!("of={}", page.display())))
            .unwrap();
    }
    let mut reset: Command = as_postgres(program("pg_resetwal", "postgresql").unwrap());
    run(reset.arg("-D").arg(cluster.data()).args(["-e", &epoch.to_string(), "-x", &xid.to_string()])).unwrap();
}

async fn freeze(cluster: &Cluster) {
    let mut conn = PgConnection::connect(&cluster.url("postgres")).await.unwrap();
    conn.execute("update pg_database set datallowconn = true").await.unwrap();
    for database in ["postgres", "template0", "template1"] {
        let mut conn = PgConnection::connect(&cluster.url(database)).await.unwrap();
        conn.execute("vacuum freeze").await.unwrap();
    }
}

/// H-19
#[tokio::test]
async fn transaction_ids_beyond_32_bits_and_across_their_turn_lose_nothing() {
    let options = ClusterOptions { settings: vec![("autovacuum".to_owned(), "off".to_owned())], ..Default::default() };
    let cluster = Cluster::start_with(options).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    freeze(&cluster).await;
    cluster.stop_fast().await;
    reset(&cluster, 3, 4_294_967_000);
    cluster.start_again().await;

    let store = bench.another().await;
    let id = "select pg_current_xact_id()::text::int8 > 17179868184";
    assert_eq!(bench_one(&store, id).await, "true", "the ids are beyond three times 32 bits");
    let mut worker = Worker::on(&store, LEASE).await;
    // Writers stay open over the turn, and others pass them.
    for n in 0..40 {
        let mut early = store.begin().await.unwrap();
        let appended = store.append(&mut early, &Event::new("order.late").id(format!("late-{n}")).key("late")).await;
        let appended = appended.unwrap();
        for i in 0..9 {
            append(&store, &events(10 * n + i, 1)).await.unwrap();
        }
        worker.drain().await;
        early.commit().await.unwrap();
        appended.wake();
        if n % 10 == 3 {
            // The next one begins from what is written, with what was pending.
            worker.source.release().await.unwrap();
            worker = Worker { came: worker.came, ..Worker::on(&store, LEASE).await };
        }
    }
    worker.drain().await;
    let turned = "select pg_current_xact_id()::text::int8 > 17179869184";
    assert_eq!(bench_one(&store, turned).await, "true", "the turn was passed");
    assert_eq!((worker.came.len(), worker.twice()), (400, 0));
    assert_eq!(worker.came.keys().filter(|id| id.starts_with("late")).count(), 40);
    assert_eq!(bench.over(store).agrees().await, 400);
}

async fn bench_one(store: &postroom_postgres::PostgresStore, text: &str) -> String {
    let row = store.pool().fetch_one(AssertSqlSafe(format!("select ({text})::text"))).await.unwrap();
    sqlx::Row::get(&row, 0)
}

/// H-92
#[tokio::test]
async fn gaps_after_rollbacks_are_not_taken_for_losses() {
    let bench = Bench::new().await;
    let mut worker = bench.worker().await;
    let mut committed = 0;
    for n in 0..200 {
        let mut tx = bench.store.begin().await.unwrap();
        let appended = bench.store.append_many(&mut tx, &events(3 * n, 3)).await.unwrap();
        if n % 3 == 0 {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            appended.wake();
            committed += 3;
        }
        if n % 20 == 0 {
            worker.drain().await;
        }
    }
    worker.drain().await;
    assert_eq!((worker.came.len(), worker.twice()), (committed, 0));
    assert_eq!(bench.agrees().await, committed as u64);
    assert_eq!(bench.one("select last_value from postroom.log_seq").await, "600");
    let maintenance = postroom_core::Store::maintenance(&bench.store).unwrap();
    assert!(!maintenance.repair(true, &crate::hazards::bench::ada()).await.unwrap().repaired);
}

/// H-93: a queue of notifications that is full fails only those who notify.
#[test]
fn no_statement_of_ours_notifies_or_listens() {
    fn texts(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                texts(&path, found);
            } else if path.extension().is_some_and(|end| end == "sql" || end == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).unwrap().to_lowercase()));
            }
        }
    }
    let mut found = Vec::new();
    for folder in ["src", "migrations"] {
        texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    assert!(found.len() > 50);
    for (path, text) in found {
        for word in ["pg_notify", "notify ", "pglistener", "listen postroom", "unlisten"] {
            assert!(!text.contains(word), "{path} contains {word:?}");
        }
    }
}
