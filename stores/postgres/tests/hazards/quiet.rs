//! Long quiet, and what ends it: nothing is looked for more often than it must be, and nothing is found late for that.

use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::{Notified, Outbox as _};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, Servers};

use crate::hazards::bench::{Bench, LEASE, PATIENCE, Worker, ada, events, retry};

/// However long nothing came: a relay that serves one route has nobody to share an old answer with.
#[tokio::test]
async fn a_take_after_a_long_quiet_finds_what_was_committed_before_it() {
    let bench = Bench::new().await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    for n in 0..3 {
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(700) {
            assert!(worker.look(10).await.unwrap().deliveries.is_empty());
        }
        bench.append(&events(n, 1)).await;
        let taken = worker.look(10).await.unwrap().deliveries;
        assert_eq!(taken.len(), 1, "committed before the take began");
        worker.settle(&taken).await.unwrap();
    }
}

/// Takes what is there until the source looks by itself.
async fn watched(worker: &mut Worker) -> Notified {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "still not watched");
        let taken = worker.look(10).await.unwrap().deliveries;
        worker.settle(&taken).await.unwrap();
        let notified = worker.source.notified();
        if worker.source.watch(Duration::from_millis(20)) {
            return notified;
        }
    }
}

async fn changed(mut notified: Notified, what: &str) {
    tokio::time::timeout(PATIENCE, notified.changed()).await.unwrap_or_else(|_| panic!("nobody was told of {what}"));
}

#[tokio::test]
async fn a_source_that_looks_by_itself_tells_of_everything_that_a_take_would_find() {
    let bench = Bench::new().await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;

    let notified = watched(&mut worker).await;
    bench.append(&events(0, 1)).await;
    changed(notified, "a commit").await;

    let mut late = bench.store.begin().await.unwrap();
    let _ = bench.store.append_many(&mut late, &events(1, 1)).await.unwrap();
    let notified = watched(&mut worker).await;
    late.commit().await.unwrap();
    changed(notified, "a transaction that was open when it looked last").await;

    let notified = watched(&mut worker).await;
    assert!(bench.store.admin().pause("mailer", &ada()).await.unwrap());
    changed(notified, "a pause").await;
    assert!(bench.store.admin().resume("mailer", &ada()).await.unwrap());

    bench.append(&events(2, 1)).await;
    let taken = worker.take(10).await;
    let failed: Vec<_> = taken.iter().map(|one| retry(one, Duration::from_secs(3))).collect();
    worker.source.settle(&failed).await.unwrap();
    let notified = watched(&mut worker).await;
    changed(notified, "what became due").await;
    assert_eq!(worker.take(10).await.len(), 1);
}

#[tokio::test]
async fn a_source_that_looks_by_itself_tells_when_it_cannot() {
    let bench = Bench::new().await;
    let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
    let mut worker = Worker::on(&bench.by(proxy.url("postgres")).await, LEASE).await;
    let notified = watched(&mut worker).await;
    proxy.set(Mode::Refuse).await;
    changed(notified, "an error").await;
    assert!(worker.look(10).await.is_err());
    proxy.set(Mode::Pass).await;
    bench.append(&events(0, 1)).await;
    assert_eq!(worker.take(10).await.len(), 1);
}
