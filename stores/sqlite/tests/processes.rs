//! Several real processes on one file. The children are the program `sqlite-child` (`tests/support/child.rs`).
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Clock, Event, RouteHealth, Store, Timestamp};
use postroom_sqlite::{SqliteOptions, SqliteStore};

use crate::common::*;

const PROCESSES: u32 = 8;
const EVENTS: u32 = 40;

fn child(role: &str, file: &Path, name: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sqlite-child"));
    command.args([role, file.to_str().unwrap(), name]).stdout(Stdio::piped()).spawn().unwrap()
}

async fn prepared(folder: &tempfile::TempDir) -> (SqliteStore, PathBuf) {
    let path = folder.path().join("shop.db");
    let store = SqliteStore::create(&path).await.unwrap();
    sqlx::query("create table sent (n integer primary key, id text)").execute(store.pool()).await.unwrap();
    store.admin().register(&[from_beginning("r")]).await.unwrap();
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

async fn number(store: &SqliteStore, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(store.pool()).await.unwrap()
}

/// H-23: eight processes append and claim at once; nobody is refused, nothing is lost, sent twice or out of order.
#[tokio::test]
async fn h23_eight_processes_append_and_deliver_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = prepared(&folder).await;
    let children: Vec<Child> = (0..PROCESSES).map(|n| child("appends-and-delivers", &path, &format!("p{n}"))).collect();
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
    let verified = store.admin().verify().await.unwrap();
    assert!(verified[0].differences.is_empty(), "{verified:?}");
    assert_eq!(verified[0].counts.delivered, u64::from(PROCESSES * EVENTS));
}

/// H-27, P1: what a killed relay had taken goes to the next one when its lease is over.
#[tokio::test]
async fn h27_what_a_killed_process_had_taken_is_handed_out_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = prepared(&folder).await;
    store.admin().append(&[Event::new("t").id("a"), Event::new("t").id("b")]).await.unwrap();
    let mut child = child("takes-and-hangs", &path, "killed");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut child = tokio::task::spawn_blocking(move || {
        assert!(lines.map_while(Result::ok).any(|line| line.contains("taken 2")), "the child took nothing");
        child
    })
    .await
    .unwrap();
    let clock = Arc::new(Ahead::default());
    let options = SqliteOptions::new("main", path.to_str().unwrap()).clock(clock.clone());
    let store = SqliteStore::open(options).await.unwrap();
    let next = store.source(&relay("next"), &from_beginning("r")).await.unwrap();
    assert_eq!(next.take(ALL).await.unwrap().ownership.lanes, 0, "two relays own the lane");
    child.kill().unwrap();
    child.wait().unwrap();
    clock.0.store(true, Ordering::SeqCst);
    next.renew(&RouteHealth::running()).await.unwrap();
    let inherited = take(&next).await;
    assert_eq!(ids(&inherited), ["a", "b"]);
}
