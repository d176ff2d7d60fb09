//! A relay that finds ten million waiting events, and operators who look at them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Server, drain, idle, median};
use crate::process::{binary, rss_mb, stop};

/// How many, unless told otherwise.
pub(crate) const EVENTS: i32 = 10_000_000;

pub(crate) async fn run(server: &Server, events: i32) {
    let (_store, pool) = server.store("backlog").await;
    drain::fill(&pool, events).await;
    let id: String = sqlx::query_scalar("select id from postroom.log where lane = 7 and seq > $1 order by seq limit 1")
        .bind(i64::from(events / 2))
        .fetch_one(&pool)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let route = "[[route]]\nname = \"out\"\nstart = \"beginning\"\nto = { stdout = {} }\n";
    idle::configure(folder.path(), &server.url("bench_backlog"), route);
    let (first, rss, rate) = deliver(folder.path()).await;
    println!(
        "postgres, relay with {events} waiting: first delivery after {first:.2} s, {rss:.0} MB RSS while draining to stdout at {rate:.0}/s (targets ≤ 2 s, ≤ 80 MB)"
    );
    for (args, target) in [
        (&["event", "show", id.as_str()][..], "target ≤ 50 ms"),
        (&["status"], "target ≤ 100 ms"),
        (&["audit"], "no target"),
        (&["key", "ls", "--blocked"], "no target"),
        (&["dead", "ls"], "no target"),
        (&["store", "stats"], "no target"),
        (&["version"], "starting the program alone"),
    ] {
        let (took, code) = look(folder.path(), args);
        let name = args.iter().filter(|arg| **arg != id).copied().collect::<Vec<_>>().join(" ");
        println!("postgres, {events} waiting, postroom {name}: {took:.0} ms, exit code {code} ({target})");
    }
}

/// Seconds until the first line, the most memory in ten seconds after it, and lines a second in them.
async fn deliver(folder: &Path) -> (f64, f64, f64) {
    let start = Instant::now();
    let mut relay = idle::start(folder, Stdio::piped());
    let mut stdout = BufReader::new(relay.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let first = start.elapsed().as_secs_f64();
    let reader = std::thread::spawn(move || stdout.split(b'\n').count());
    let (mut rss, start) = (0.0_f64, Instant::now());
    while start.elapsed() < Duration::from_secs(10) {
        rss = rss.max(rss_mb(&relay));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = start.elapsed().as_secs_f64();
    stop(&mut relay);
    let lines = reader.join().unwrap();
    (first, rss, lines as f64 / took)
}

/// Milliseconds a command takes from its start to its end, the middle of seven, and what it ended with.
fn look(folder: &Path, args: &[&str]) -> (f64, i32) {
    let mut code = -1;
    let mut once = || {
        let start = Instant::now();
        let done = Command::new(binary()).args(args).current_dir(folder).output().unwrap();
        code = done.status.code().unwrap_or(-1);
        start.elapsed().as_secs_f64() * 1000.0
    };
    let took = median(&mut [(); 7].map(|()| once()));
    (took, code)
}
