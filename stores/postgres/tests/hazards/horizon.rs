//! A session that looks back for long: nothing dead can be cleaned away.

use std::collections::HashMap;
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::Retention;
use postroom_testbed::{Database, Servers};
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::hazards::bench::{Bench, LEASE, Worker, events, rounds};

const EACH: usize = 1_000;

/// H-18
#[tokio::test]
async fn reads_cost_the_same_while_a_session_holds_the_horizon() {
    let database = Database::create(&Servers::find()).await;
    let bench = Bench::at(database.url()).await;
    let mut looks_back = PgConnection::connect(&database.url()).await.unwrap();
    looks_back.execute("begin isolation level repeatable read; select count(*) from postroom.log").await.unwrap();
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    let mut clock = SessionClock::of(&database).await;
    let passes = rounds(40, 200);
    let (mut times, mut settles) = (Vec::new(), Vec::new());
    let keep = Some(Duration::from_hours(24));
    for n in 0..passes {
        bench.append(&events(n * EACH, EACH)).await;
        // Work whose cost does not change, beside it: other tests make the machine slower and faster.
        clock.lap().await;
        bench.one("select count(*) from generate_series(1, 100000)").await;
        let unit = clock.lap().await;
        let taken = worker.look(EACH).await.unwrap().deliveries;
        times.push(clock.lap().await / unit);
        assert_eq!(taken.len(), EACH);
        // Many small ones: each leaves its checkpoint behind.
        for some in taken.chunks(100) {
            worker.settle(some).await.unwrap();
        }
        settles.push(clock.lap().await / unit);
        worker.renew().await.unwrap();
        if n % 10 == 0 {
            let retention = Retention { delivered: keep, attempts: keep, inbox: keep };
            bench.store.admin().prune(&retention, false).await.unwrap();
        }
    }
    for (what, times) in [("take", &times), ("settle", &settles)] {
        let (first, last) = (middle(&times[..passes / 4]), middle(&times[passes - passes / 4..]));
        assert!(last <= first * 2.0, "a {what} cost {first:.2} units at the start and {last:.2} at the end");
    }
    // Somebody else begins from the checkpoints: by their index, however many there are.
    let scans = "select seq_scan from pg_stat_user_tables where schemaname = 'postroom' and relname = 'checkpoint'";
    bench.sql("select pg_stat_force_next_flush()").await;
    let before = bench.one(scans).await;
    worker.source.release().await.unwrap();
    let mut next = Worker::on(&bench.another().await, LEASE).await;
    bench.append(&events(passes * EACH, 1)).await;
    assert_eq!(next.take(10).await.len(), 1);
    assert_eq!(bench.one(scans).await, before);
    looks_back.execute("rollback").await.unwrap();
}

/// Processor time of all sessions of a database: unlike time by the clock, it does not count what other tests do meanwhile.
struct SessionClock {
    connection: PgConnection,
    before: HashMap<i32, u64>,
}

impl SessionClock {
    async fn of(database: &Database) -> Self {
        let connection = PgConnection::connect(&database.url()).await.unwrap();
        Self { connection, before: HashMap::new() }
    }

    /// Nanoseconds since the last call.
    async fn lap(&mut self) -> f64 {
        let pids: Vec<i32> = sqlx::query_scalar(
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
        )
        .fetch_all(&mut self.connection)
        .await
        .unwrap();
        let spent = |pid: i32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
            Some((pid, text.split(' ').next()?.parse::<u64>().ok()?))
        };
        let now: HashMap<i32, u64> = pids.into_iter().filter_map(spent).collect();
        let lap = now.iter().map(|(pid, spent)| spent - self.before.get(pid).copied().unwrap_or_default()).sum::<u64>();
        self.before = now;
        lap as f64
    }
}

/// The median: one slow moment of the machine says nothing.
fn middle(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
