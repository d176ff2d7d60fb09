//! A relay that finds ten million waiting events, and operators who look at them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Server, drain, idle, median};
use crate::http::Client;
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
    let (again, ..) = deliver(folder.path()).await;
    println!("postgres, the next relay on the rest of {events}: first delivery after {again:.2} s (target ≤ 2 s)");
    for (args, target) in [
        (&["event", "show", id.as_str()][..], "target ≤ 50 ms"),
        (&["status"], "target ≤ 100 ms"),
        (&["verify"], "no target"),
        (&["key", "ls", "--blocked"], "no target"),
        (&["dead", "ls"], "no target"),
        (&["store", "stats"], "no target"),
        (&["version"], "starting the program alone"),
    ] {
        let (took, code) = look(folder.path(), args);
        let name = args.iter().filter(|arg| **arg != id).copied().collect::<Vec<_>>().join(" ");
        println!("postgres, {events} waiting, postroom {name}: {took:.0} ms, exit code {code} ({target})");
    }
    let accepted = "insert into postroom.inbox (consumer, id) select 'mailer', id from postroom.log";
    sqlx::query(accepted).execute(&pool).await.unwrap();
    sqlx::query("vacuum analyze postroom.inbox").execute(&pool).await.unwrap();
    ask(folder.path(), &id, events).await;
}

/// What every list of the API takes while nothing is delivered.
async fn ask(folder: &Path, id: &str, events: i32) {
    Command::new(binary()).args(["route", "pause", "out"]).current_dir(folder).output().unwrap();
    let address = "127.0.0.1:17480";
    let relay = Command::new(binary()).args(["relay", "run", "--listen", address]).current_dir(folder).spawn();
    let mut relay = relay.expect("the program");
    while tokio::net::TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut client = Client::connect(address).await;
    let one = format!("/events/{id}");
    for path in [
        "/status",
        "/routes/out",
        "/events",
        "/events?limit=1000",
        "/events?type=order.*&from=1h",
        "/events?key=order-77",
        "/events?type=invoice.*",
        "/events?tenant=nobody",
        &one,
        "/keys",
        "/dead",
        "/dead/groups",
        "/routes/out/throughput",
        "/replays",
        "/inbox",
        "/inbox?consumer=mailer",
        "/inbox?consumer=nobody",
        "/actions",
        "/verify",
    ] {
        let (mut took, mut said) = (Vec::new(), 0);
        for _ in 0..15 {
            let start = Instant::now();
            said = client.get(&format!("/api/v1{path}")).await.0;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let path = path.replace(id, "ID");
        println!(
            "postgres, {events} waiting, GET {path}: {:.1} ms, status {said} (target ≤ 100 ms)",
            median(&mut took)
        );
    }
    stop(&mut relay);
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
