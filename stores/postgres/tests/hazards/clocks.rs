//! Clocks that disagree, and clocks that jump. Due times, leases and retention go by the database's clock alone.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Clock as _, Event, Timestamp};
use postroom_testbed::{Cluster, ClusterOptions, faketime, unique_folder};
use postroom_testing::ManualClock;

use crate::hazards::bench::{Bench, Worker, delivered, events, retry, wait_for};

/// A cluster whose clock the test sets.
struct Clock {
    cluster: Cluster,
    folder: PathBuf,
}

impl Clock {
    async fn start() -> Self {
        let folder = unique_folder("postroom-clock").unwrap();
        let file = folder.join("shift");
        fs::write(&file, "+0").unwrap();
        let mut environment = faketime("+0");
        environment.retain(|(name, _)| name != "FAKETIME");
        environment.push(("FAKETIME_TIMESTAMP_FILE".to_owned(), file.display().to_string()));
        environment.push(("FAKETIME_NO_CACHE".to_owned(), "1".to_owned()));
        let cluster = Cluster::start_with(ClusterOptions { environment, ..ClusterOptions::default() }).await;
        Self { cluster, folder }
    }

    /// Sets it to so many seconds before or after ours.
    async fn set(&self, bench: &Bench, seconds: i32) {
        fs::write(self.folder.join("shift"), format!("{seconds:+}")).unwrap();
        let now = Timestamp::now().as_second() + i64::from(seconds);
        let near = format!("select abs(extract(epoch from clock_timestamp()) - {now}) < 60");
        wait_for("the clock", async || bench.one(&near).await == "true").await;
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// H-30: what a relay writes carries the store's time, whatever the server's clock says.
#[tokio::test]
async fn every_checkpoint_carries_the_stores_own_time() {
    let clock = ManualClock::default();
    let bench = Bench::with(|options| options.lanes(2).clock(Arc::new(clock.clone()))).await;
    bench.append(&events(0, 3)).await;
    let mut worker = bench.worker().await;
    worker.drain().await;
    worker.source.release().await.unwrap();
    let other = format!("select count(*) from postroom.checkpoint where at <> '{}'", clock.now());
    assert_eq!(bench.one(&other).await, "0");
}

/// H-30: seen from the database it is the relay's clock that is wrong.
async fn an_hour_apart(shift: &str) {
    let environment = faketime(shift);
    let cluster = Cluster::start_with(ClusterOptions { environment, ..ClusterOptions::default() }).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    let lease = Duration::from_secs(1);
    let mut first = Worker::on(&bench.another().await, lease).await;
    bench.append(&events(0, 10)).await;
    let taken = first.take(10).await;
    let began = Instant::now();
    let (failed, through) = taken.split_at(1);
    let mut settlements: Vec<_> = failed.iter().map(|one| retry(one, Duration::from_millis(700))).collect();
    settlements.extend(through.iter().map(delivered));
    first.source.settle(&settlements).await.unwrap();
    first.renew().await.unwrap();

    // The retry comes at its time, not an hour before or after.
    let again = first.take(10).await;
    assert!(again.len() == 1 && again[0].attempts == 1);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(700) && waited < Duration::from_secs(10), "{shift}: {waited:?}");
    // Nobody takes a lane whose lease holds, and somebody does when it has run out.
    first.renew().await.unwrap();
    let renewed = Instant::now();
    let mut second = Worker::on(&bench.another().await, lease).await;
    assert_eq!(second.look(10).await.unwrap().deliveries.len(), 0, "{shift}");
    wait_for("the end of the lease", async || {
        second.renew().await.unwrap();
        !second.look(10).await.unwrap().deliveries.is_empty()
    })
    .await;
    assert!(renewed.elapsed() < Duration::from_secs(10), "{shift}: {:?}", renewed.elapsed());
}

/// H-30
#[tokio::test]
async fn a_relay_whose_clock_is_an_hour_behind_waits_and_takes_over_in_time() {
    an_hour_apart("+1h").await;
}

/// H-30
#[tokio::test]
async fn a_relay_whose_clock_is_an_hour_ahead_waits_and_takes_over_in_time() {
    an_hour_apart("-1h").await;
}

/// H-31
#[tokio::test]
async fn when_the_databases_clock_jumps_nothing_is_lost_and_no_lane_stays_with_the_dead() {
    let clock = Clock::start().await;
    let bench = Bench::at(clock.cluster.url("postgres")).await;
    let lease = Duration::from_secs(2);
    let mut worker = Worker::on(&bench.another().await, lease).await;
    let mut n = 0;
    for shift in [3_600, 0, -7_200, 86_400 * 3, 0] {
        bench.append(&events(n, 20)).await;
        let before = worker.take(10).await;
        clock.set(&bench, shift).await;
        bench.append(&events(n + 20, 20)).await;
        worker.renew().await.unwrap();
        worker.settle(&before).await.unwrap();
        n += 40;
        worker.until(n).await;
    }
    // A delayed one comes by the clock as it is then.
    let soon = Timestamp::now() + Duration::from_secs(1);
    bench.append(&[Event::new("order.late").id("late").available_at(soon)]).await;
    worker.renew().await.unwrap();
    worker.until(n + 1).await;
    worker.drain().await;
    assert_eq!(bench.agrees().await, n as u64 + 1);

    // It dies, and the clock goes back by an hour: the lease that it had ended in an hour from now by that clock.
    bench.append(&events(n + 100, 5)).await;
    worker.renew().await.unwrap();
    assert_eq!(worker.take(10).await.len(), 5);
    clock.set(&bench, -3_600).await;
    let (dead_since, mut next) = (Instant::now(), Worker::on(&bench.another().await, lease).await);
    wait_for("the take-over", async || {
        next.renew().await.unwrap();
        next.look(10).await.unwrap();
        next.came.len() == 5
    })
    .await;
    assert!(dead_since.elapsed() < Duration::from_secs(20), "{:?}", dead_since.elapsed());
}
