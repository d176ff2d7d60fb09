//! Several real processes on one file. A child is this test binary again, running one ignored test.
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;
use postroom_core::{Clock, Event, Outbox, RelayIdentity, RouteHealth, Source, Store, Timestamp};
use postroom_sqlite::{Sqlite, SqliteOptions};

const FILE: &str = "POSTROOM_TEST_FILE";
const NAME: &str = "POSTROOM_TEST_NAME";
const PROCESSES: u32 = 8;
const EVENTS: u32 = 40;

fn child(test: &str, file: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(FILE, file)
        .env(NAME, name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a child was given; `None` when somebody runs it by hand.
async fn opened() -> Option<(Sqlite, String)> {
    let store = Sqlite::create(PathBuf::from(std::env::var(FILE).ok()?)).await.unwrap();
    Some((store, std::env::var(NAME).ok()?))
}

async fn prepared(folder: &tempfile::TempDir) -> (Sqlite, PathBuf) {
    let path = folder.path().join("shop.db");
    let store = Sqlite::create(&path).await.unwrap();
    sqlx::query("create table sent (n integer primary key, id text)").execute(store.pool()).await.unwrap();
    store.desk().register(&[from_beginning("r")]).await.unwrap();
    (store, path)
}

const HOUR: Duration = Duration::from_hours(1);

/// The machine's clock, two hours ahead once it is told to.
#[derive(Debug, Default)]
struct Ahead(AtomicBool);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::now() + if self.0.load(Ordering::SeqCst) { 2 * HOUR } else { Duration::ZERO }
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

async fn number(store: &Sqlite, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(store.pool()).await.unwrap()
}

/// H-23: eight processes append and claim at once; nobody is refused, nothing is lost, sent twice or out of order.
#[tokio::test]
async fn h23_eight_processes_append_and_deliver_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = prepared(&folder).await;
    let children: Vec<Child> =
        (0..PROCESSES).map(|n| child("child_appends_and_delivers", &path, &format!("p{n}"))).collect();
    for child in children {
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let all = i64::from(PROCESSES * EVENTS);
    assert_eq!(number(&store, "select count(*) from sent").await, all);
    assert_eq!(number(&store, "select count(distinct id) from sent").await, all);
    let out_of_order = "select count(*) from sent a join sent b on a.n < b.n \
         and substr(a.id, 1, 2) = substr(b.id, 1, 2) and cast(substr(a.id, 4) as integer) > cast(substr(b.id, 4) as integer)";
    assert_eq!(number(&store, out_of_order).await, 0);
    let audit = store.desk().audit().await.unwrap();
    assert!(audit[0].differences.is_empty(), "{audit:?}");
    assert_eq!(audit[0].counts.delivered, u64::from(PROCESSES * EVENTS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a child of h23"]
async fn child_appends_and_delivers() {
    let Some((store, name)) = opened().await else { return };
    let source = store.source(&relay(&name), &from_beginning("r")).await.unwrap();
    let producer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 1..=EVENTS {
                let mut tx = store.begin().await.unwrap();
                let event = Event::new("t").key(&name).id(format!("{name}-{n}"));
                let _ = store.append(&mut tx, &event).await.unwrap();
                tx.commit().await.unwrap();
            }
        })
    };
    let all = i64::from(PROCESSES * EVENTS);
    while number(&store, "select delivered from postroom_checkpoint").await < all {
        source.renew(&RouteHealth::running()).await.unwrap();
        let taken = take(&source).await;
        if taken.is_empty() {
            // The pause between two looks of a relay.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        let mut tx = store.begin().await.unwrap();
        for delivery in &taken {
            sqlx::query("insert into sent (id) values (?1)").bind(&delivery.event.id).execute(&mut *tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        source.settle(&taken.iter().map(delivered).collect::<Vec<_>>()).await.unwrap();
    }
    producer.await.unwrap();
    source.release().await.unwrap();
}

/// H-27, P1: what a killed relay had taken goes to the next one when its lease is over.
#[tokio::test]
async fn h27_what_a_killed_process_had_taken_is_handed_out_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = prepared(&folder).await;
    store.desk().append(&[Event::new("t").id("a"), Event::new("t").id("b")]).await.unwrap();
    let mut child = child("child_takes_and_hangs", &path, "killed");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut child = tokio::task::spawn_blocking(move || {
        assert!(lines.map_while(Result::ok).any(|line| line.contains("taken 2")), "the child took nothing");
        child
    })
    .await
    .unwrap();
    let clock = Arc::new(Ahead::default());
    let options = SqliteOptions::new("main", path.to_str().unwrap()).clock(clock.clone());
    let store = Sqlite::open(options).await.unwrap();
    let next = store.source(&relay("next"), &from_beginning("r")).await.unwrap();
    assert_eq!(next.take(ALL).await.unwrap().standing.lanes, 0, "two relays own the lane");
    child.kill().unwrap();
    child.wait().unwrap();
    clock.0.store(true, Ordering::SeqCst);
    next.renew(&RouteHealth::running()).await.unwrap();
    let inherited = take(&next).await;
    assert_eq!(ids(&inherited), ["a", "b"]);
}

#[tokio::test]
#[ignore = "a child of h27"]
async fn child_takes_and_hangs() {
    let Some((store, boot)) = opened().await else { return };
    let relay = RelayIdentity { lease: HOUR, ..relay(&boot) };
    let source: Arc<dyn Source> = store.source(&relay, &from_beginning("r")).await.unwrap();
    println!("taken {}", take(&source).await.len());
    std::future::pending::<()>().await;
}
