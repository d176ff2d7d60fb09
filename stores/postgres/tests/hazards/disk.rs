//! A disk without room.

use std::fs;
use std::path::Path;

use postroom_core::{Event, Outbox as _, StoreErrorKind};
use postroom_testbed::{Cluster, ClusterOptions, SmallDisk};

use crate::hazards::bench::{Bench, LEASE, Worker, events};

async fn cluster_on(folder: &Path) -> Cluster {
    let settings = [("min_wal_size", "64MB"), ("max_wal_size", "64MB"), ("wal_init_zero", "on"), ("autovacuum", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Cluster::start_with(ClusterOptions { settings, data: Some(folder.join("data")), ..ClusterOptions::default() }).await
}

/// H-17
#[tokio::test]
async fn a_full_disk_fails_appends_by_name_and_the_rest_goes_on_when_there_is_room() {
    let disk = SmallDisk::new(160);
    let cluster = cluster_on(disk.path()).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    bench.append(&events(0, 50)).await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    let first = worker.take(20).await;

    let ballast = disk.fill();
    let mut failed = 0;
    let error = loop {
        let mut tx = bench.store.begin().await.unwrap();
        // Random bytes: what compresses well would find room for long.
        let payload: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(200_000).collect();
        let event = Event::new("order.placed").id(format!("large-{failed}")).bytes("application/octet-stream", payload);
        match bench.store.append(&mut tx, &event).await {
            Ok(appended) => {
                drop(appended);
                tx.rollback().await.unwrap();
            }
            Err(error) => break error,
        }
        failed += 1;
        assert!(failed < 1_000, "the disk does not become full");
    };
    assert_eq!(error.kind, StoreErrorKind::StorageFull, "{error}");
    assert!(error.message.contains("no room left"), "{error}");
    // Whatever relays can do now, they lose nothing by trying.
    let mut in_hand = first;
    for _ in 0..5 {
        in_hand.extend(worker.look(5).await.map(|take| take.deliveries).unwrap_or_default());
        let _ = worker.settle(&in_hand).await;
        let _ = worker.renew().await;
    }

    fs::remove_file(ballast).unwrap();
    bench.append(&events(50, 50)).await;
    worker.settle_all(&in_hand.iter().map(crate::hazards::bench::delivered).collect::<Vec<_>>()).await;
    worker.until(100).await;
    worker.drain().await;
    assert_eq!(bench.agrees().await, 100);
    drop((bench, worker, cluster));
}
