//! Another server: a promoted standby that knows less, a standby instead of the primary, a session that may not write.

use postroom_admin::ManagedStore as _;
use postroom_core::StoreErrorKind;
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::proxy::{Mode, Trigger};
use postroom_testbed::{Cluster, Database, FaultProxy, Servers};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

use crate::hazards::bench::{Bench, LEASE, PATIENCE, Worker, append, delivered, events, ids, wait_for};

async fn ask(url: &str, text: &str) -> String {
    let mut conn = PgConnection::connect(url).await.unwrap();
    conn.fetch_one(AssertSqlSafe(format!("select ({text})::text"))).await.unwrap().get(0)
}

/// A primary, and a standby that follows it by way of a proxy.
async fn pair() -> (Cluster, FaultProxy, Cluster) {
    let primary = Cluster::start(&[("synchronous_commit", "on"), ("wal_sender_timeout", "0")]).await;
    let link = FaultProxy::to(primary.port()).await;
    let through = format!("host=127.0.0.1 port={} user=postgres", link.port());
    let standby = Cluster::standby_of(&primary, &[("primary_conninfo", &through)]).await;
    (primary, link, standby)
}

async fn caught_up(primary: &Cluster, standby: &Cluster) {
    let lsn = ask(&primary.url("postgres"), "select pg_current_wal_lsn()").await;
    let there = format!("select pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn");
    wait_for("the standby", async || ask(&standby.url("postgres"), &there).await == "true").await;
}

/// H-09
#[tokio::test]
async fn after_a_failover_that_lost_commits_all_that_survived_is_delivered() {
    let (primary, link, standby) = pair().await;
    let bench = Bench::at(primary.url("postgres")).await;
    bench.append(&events(0, 60)).await;
    let urls = [primary.url("postgres"), standby.url("postgres")];
    let store = PostgresStore::open(PostgresOptions::new("main", "").urls(urls)).await.unwrap();
    let mut worker = Worker::on(&store, LEASE).await;
    let settled = worker.take(20).await;
    worker.settle(&settled).await.unwrap();
    caught_up(&primary, &standby).await;

    // From here on the standby hears nothing: it will know neither these events nor that they were delivered.
    link.set(Mode::Hold).await;
    let in_hand = worker.take(10).await;
    bench.append(&events(60, 50)).await;
    worker.until(110).await;
    worker.drain().await;
    primary.kill_postmaster().await;
    standby.promote().await;

    // Numbers of events that are gone are drawn again: a position of the lost primary would skip them.
    let again: Vec<_> = events(1_000, 80);
    append(&PostgresStore::open(PostgresOptions::new("main", standby.url("postgres"))).await.unwrap(), &again)
        .await
        .unwrap();
    worker.settle_all(&in_hand.iter().map(delivered).collect::<Vec<_>>()).await;
    worker.until(110 + 80).await;
    worker.drain().await;
    for id in ids(0, 60).iter().chain(&ids(1_000, 80)) {
        assert!(worker.came.contains_key(id), "event {id} survived and was not delivered");
    }
    assert_eq!(bench.over(store).agrees().await, 140);
}

/// H-10
#[tokio::test]
async fn a_standby_is_refused_alone_and_passed_over_in_a_list() {
    let (primary, _link, standby) = pair().await;
    let bench = Bench::at(primary.url("postgres")).await;
    bench.append(&events(0, 3)).await;
    caught_up(&primary, &standby).await;
    let error = PostgresStore::open(PostgresOptions::new("main", standby.url("postgres"))).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(error.message.ends_with("is a standby") && !error.hint.is_empty(), "{}", error.message);
    let urls = [standby.url("postgres"), primary.url("postgres")];
    let store = PostgresStore::open(PostgresOptions::new("main", "").urls(urls)).await.unwrap();
    let mut worker = Worker::on(&store, LEASE).await;
    worker.until(3).await;
}

/// A server that lets clients in and never answers this.
fn silent_at(statement: &str) -> Mode {
    Mode::HoldAt(Trigger::Statement(statement.to_owned()))
}

/// H-10
#[tokio::test]
async fn a_server_that_lets_us_in_and_never_answers_is_passed_over_in_a_list() {
    let bench = Bench::new().await;
    let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
    let urls = [proxy.url("postgres"), Servers::find().postgres_url("postgres")];
    for question in ["pg_is_in_recovery", "pg_backend_pid"] {
        proxy.set(silent_at(question)).await;
        let alone = bench.options.clone().urls(&urls[..1]);
        let open = tokio::time::timeout(PATIENCE, PostgresStore::open(alone)).await.expect("it is given up");
        assert_eq!(open.err().unwrap().kind, StoreErrorKind::Unreachable, "{question}");
        proxy.set(silent_at(question)).await;
        let listed = bench.options.clone().urls(&urls);
        tokio::time::timeout(PATIENCE, PostgresStore::open(listed)).await.expect("it is passed over").unwrap();
    }
}

/// H-10
#[tokio::test]
async fn the_search_for_the_primary_ends_at_no_server_that_never_answers() {
    let bench = Bench::new().await;
    let first = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
    let urls = [first.url("postgres"), Servers::find().postgres_url("postgres")];
    let store = PostgresStore::open(bench.options.clone().urls(urls)).await.unwrap();
    let mut worker = Worker::on(&store, LEASE).await;
    bench.append(&events(0, 5)).await;
    worker.until(5).await;
    first.play(vec![Mode::Reset, silent_at("pg_is_in_recovery")]).await;
    bench.append(&events(5, 5)).await;
    worker.until(10).await;
    worker.drain().await;
    assert_eq!(bench.agrees().await, 10);
}

/// H-10
#[tokio::test]
async fn a_session_that_may_not_write_is_refused_and_hands_nothing_out() {
    let database = Database::create(&Servers::find()).await;
    let bench = Bench::at(database.url()).await;
    bench.append(&events(0, 5)).await;
    let mut worker = Worker::on(&bench.another().await, LEASE).await;
    let in_hand = worker.take(2).await;

    let admin = Servers::find().postgres_url("postgres");
    let (name, mut conn) = (database.name(), PgConnection::connect(&admin).await.unwrap());
    let change = format!(
        "alter database {name} set default_transaction_read_only = on;
         select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    );
    conn.execute(AssertSqlSafe(change)).await.unwrap();
    let error = PostgresStore::open(bench.options.clone()).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::PermissionDenied);
    assert!(error.message.contains("read-only"), "{}", error.message);
    wait_for("a refusal", async || match worker.look(10).await {
        Ok(take) => panic!("a take of a relay that may not write brought {:?}", take.deliveries),
        Err(error) => error.kind == StoreErrorKind::PermissionDenied,
    })
    .await;
    assert!(worker.settle(&in_hand).await.is_ok(), "it lost its lanes, so it is void");

    let back = format!(
        "alter database {name} reset default_transaction_read_only;
         select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    );
    conn.execute(AssertSqlSafe(back)).await.unwrap();
    worker.until(5).await;
    assert_eq!(
        bench.another().await.admin().verify().await.unwrap().iter().map(|row| row.counts.delivered).sum::<u64>(),
        5
    );
}
