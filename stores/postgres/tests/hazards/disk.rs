//! A disk without room.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postroom_conformance::servers::{Cluster, ClusterOptions, run, unique_folder};
use postroom_core::{Event, Outbox as _, StoreErrorKind};

use crate::hazards::bench::{Bench, LEASE, Worker, events};

/// A disk in memory; gone when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(megabytes: u32) -> Self {
        let folder = unique_folder("postroom-disk").unwrap();
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        run(mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder))
            .expect("a small disk can be mounted: this test runs as root");
        Self(folder)
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = OpenOptions::new().create(true).append(true).open(&ballast).unwrap();
        for size in [1 << 20, 4096] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let gone = run(Command::new("umount").arg("--lazy").arg(&self.0)).and_then(|()| fs::remove_dir(&self.0));
        assert!(gone.is_ok() || std::thread::panicking(), "{gone:?}");
    }
}

async fn cluster_on(folder: &Path) -> Cluster {
    let settings = [("min_wal_size", "64MB"), ("max_wal_size", "64MB"), ("wal_init_zero", "on"), ("autovacuum", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Cluster::start_with(ClusterOptions { settings, data: Some(folder.join("data")), ..ClusterOptions::default() }).await
}

/// H-17
#[tokio::test]
async fn a_full_disk_fails_appends_by_name_and_the_rest_goes_on_when_there_is_room() {
    let disk = SmallDisk::new(160);
    let cluster = cluster_on(&disk.0).await;
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
    assert_eq!(error.kind, StoreErrorKind::Full, "{error}");
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
