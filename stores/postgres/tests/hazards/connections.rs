//! A server without free connections, and one that is away.

use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::StoreErrorKind;
use postroom_postgres::PostgresStore;
use postroom_testbed::Cluster;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use crate::hazards::bench::{Bench, LEASE, Worker, events};

/// H-15
#[tokio::test]
async fn a_server_without_free_connections_costs_no_lane() {
    let cluster = Cluster::start(&[("max_connections", "12"), ("superuser_reserved_connections", "0")]).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    bench.append(&events(0, 10)).await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    let in_hand = worker.take(5).await;
    assert_eq!(worker.renew().await.unwrap(), 4);

    // Everybody but the one who renews is sent away, and strangers take all the places.
    let mut admin = PgConnection::connect(&cluster.url("postgres")).await.unwrap();
    let keeper =
        // A renewal also begins to count lanes, over another connection.
        "select pid from pg_stat_activity where application_name = 'postroom' \
         and query not like '%unnest($1::int2[]%' order by state_change desc limit 1";
    let keeper: i32 = admin.fetch_one(keeper).await.unwrap().get(0);
    let others = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where backend_type = 'client backend' and pid not in ({keeper}, pg_backend_pid())"
    );
    admin.execute(AssertSqlSafe(others)).await.unwrap();
    let mut strangers = Vec::new();
    let start = Instant::now();
    loop {
        match PgConnection::connect(&cluster.url("postgres")).await {
            Ok(conn) => strangers.push(conn),
            // Those sent away may take a moment to leave.
            Err(_) if strangers.len() < 10 => assert!(start.elapsed() < crate::hazards::bench::PATIENCE),
            Err(_) => break,
        }
    }
    let mut settled = worker.settle(&in_hand).await;
    let error = loop {
        // The first ones may still find a connection that was cut.
        match worker.look(10).await {
            Err(error) if error.kind == StoreErrorKind::Busy => break error,
            Err(error) => assert_eq!(error.kind, StoreErrorKind::Unreachable, "{error}"),
            Ok(take) => assert!(take.deliveries.is_empty()),
        }
        assert!(start.elapsed() < crate::hazards::bench::PATIENCE);
    };
    assert!(error.message.contains("no connection left"), "{error}");
    for _ in 0..3 {
        worker.renew().await.unwrap();
    }
    let held: i64 =
        admin.fetch_one("select count(*) from postroom.lane where holder is not null").await.unwrap().get(0);
    assert_eq!(held, 4, "nobody took the lanes");

    drop(strangers);
    // A settlement that failed is repeated, as an engine does.
    while settled.is_err() {
        assert!(start.elapsed() < 2 * crate::hazards::bench::PATIENCE, "{settled:?}");
        settled = worker.settle(&in_hand).await;
    }
    worker.until(10).await;
    worker.drain().await;
    assert_eq!(Bench::at(cluster.url("postgres")).await.agrees().await, 10);
}

/// Whoever looks is told of a server that is away before they lose patience; the wait of relays is longer.
#[tokio::test]
async fn a_server_that_is_away_is_told_soon_to_admin_connections() {
    let cluster = Cluster::start(&[]).await;
    let bench = Bench::at(cluster.url("postgres")).await;
    let admin = PostgresStore::open(bench.options.clone().for_admin()).await.unwrap().admin();
    admin.tokens().await.unwrap();
    cluster.stop_fast().await;
    // The first one may find a connection that is gone.
    admin.tokens().await.unwrap_err();
    let asked = Instant::now();
    assert_eq!(admin.tokens().await.unwrap_err().kind, StoreErrorKind::Unreachable);
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    cluster.start_again().await;
    admin.tokens().await.unwrap();
}
