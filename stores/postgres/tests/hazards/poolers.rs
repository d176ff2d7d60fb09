//! What stands between us and the server: poolers that were not declared, firewalls that forget connections.

use std::time::{Duration, Instant};

use postroom_core::StoreErrorKind;
use postroom_postgres::{Pooler, PostgresStore};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{Database, FaultProxy, Servers};

use crate::hazards::bench::{Bench, LEASE, Worker, append, events};

/// H-11
#[tokio::test]
async fn a_pooler_is_found_and_used_without_being_declared() {
    let database = Database::create(&Servers::find()).await;
    let bench = Bench::at(database.url()).await;
    for url in [database.pgbouncer_url(), database.debian_pgbouncer_url()].iter().cycle().take(10) {
        let refused = PostgresStore::open(bench.options.clone().urls([url.clone()]).pooler(Pooler::None)).await;
        let refused = refused.expect_err("a pooler nobody declared is refused");
        assert_eq!(refused.kind, StoreErrorKind::PermissionDenied);
        assert!(refused.hint.contains("pooler = \"transaction\""), "{}", refused.hint);
    }
    let debian = PostgresStore::open(bench.options.clone().urls([database.debian_pgbouncer_url()])).await.unwrap();
    append(&debian, &events(900_000, 1)).await.unwrap();
    let mut worker = Worker::on(&debian, LEASE).await;
    worker.until(1).await;
    worker.source.release().await.unwrap();

    let store = PostgresStore::open(bench.options.clone().urls([database.pgbouncer_url()])).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for i in 0..20 {
                append(&store, &events(1_000 * n + i, 1)).await.unwrap();
            }
        });
    }
    let mut worker = Worker::on(&store, LEASE).await;
    worker.until(160).await;
    writers.join_all().await;
    assert_eq!(bench.agrees().await, 161);
}

/// H-12
#[tokio::test]
async fn connections_that_a_firewall_forgot_are_given_up_within_30_seconds() {
    let bench = Bench::new().await;
    let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
    let store = bench.by(proxy.url("postgres")).await;
    let mut worker = Worker::on(&store, LEASE).await;
    bench.append(&events(0, 10)).await;
    let in_hand = worker.take(5).await;
    // Several connections lie idle in the pool: none of them may cost another wait.
    let admin = postroom_admin::ManagedStore::admin(&store);
    let (a, b, c, d) = tokio::join!(admin.routes(), admin.relays(), admin.store(), admin.audit(None, 1));
    assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
    assert!(worker.renew().await.is_ok());

    proxy.set(Mode::Forget).await;
    let start = Instant::now();
    worker.settle(&in_hand).await.expect_err("nobody answers");
    worker.until(10).await;
    assert!(start.elapsed() < Duration::from_secs(30), "it took {:?}", start.elapsed());
    worker.renew().await.unwrap();
    worker.drain().await;
    assert_eq!(bench.agrees().await, 10);
}
