//! The program as people run it: what it costs when idle, and what a million waiting events change.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, JSON};
use postroom_sqlite::SqliteStore;

/// Runs all benchmarks of the program; it must have been built (`cargo build --release --bin postroom`).
pub(crate) fn run() {
    dev("2/s");
    dev("1/h");
    backlog();
}

/// CPU and memory of `postroom dev` at a rate of events.
fn dev(rate: &str) {
    let mut child = Command::new(binary())
        .args(["dev", "--rate", rate])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    pause(5);
    let before = cpu(child.id());
    let seconds = 30;
    pause(seconds);
    let share = (cpu(child.id()) - before) / f64::from(u32::try_from(seconds).unwrap()) * 100.0;
    let rss = rss_mb(&child);
    stop(&mut child);
    println!("postroom dev at {rate}: {share:.2} % of a core (target ≤ 1 % idle), {rss:.0} MB RSS (target ≤ 40)");
}

/// Start time and memory of a relay with few and with a million waiting events.
fn backlog() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let measured: Vec<(f64, f64)> = [2_000, 1_000_000]
        .into_iter()
        .map(|count| {
            let folder = tempfile::tempdir().unwrap();
            runtime.block_on(fill(folder.path(), count));
            let mut runs: Vec<(f64, f64)> = (0..5).map(|_| first_delivery(folder.path())).collect();
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            runs[runs.len() / 2]
        })
        .collect();
    let [(start_few, rss_few), (start_many, rss_many)] = measured[..] else { return };
    println!(
        "relay with 1,000,000 waiting: first delivery after {:.0} ms ({:.2} of 2,000 waiting), {rss_many:.0} MB RSS ({:.2}) (target ≤ 1.10 both)",
        start_many * 1000.0,
        start_many / start_few,
        rss_many / rss_few
    );
}

async fn fill(folder: &Path, count: usize) {
    let store = SqliteStore::create(folder.join("shop.db").to_str().unwrap()).await.unwrap();
    let payload = format!("{{\"x\":\"{}\"}}", "p".repeat(292));
    let admin = store.admin();
    for batch in 0..count.div_ceil(10_000) {
        let size = 10_000.min(count - batch * 10_000);
        let event = |n| Event::new("order.placed").key(format!("order-{n}")).bytes(JSON, payload.clone());
        admin.append(&(0..size).map(event).collect::<Vec<_>>()).await.unwrap();
    }
    let config = "[relay]\nlease = \"1s\"\n[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"out\"\nstart = \"beginning\"\nto = { stdout = {} }\n";
    std::fs::write(folder.join("postroom.toml"), config).unwrap();
}

/// Seconds to the first line on stdout, and memory once the pipe is full and nothing moves.
fn first_delivery(folder: &Path) -> (f64, f64) {
    let start = Instant::now();
    let mut relay = Command::new(binary());
    let mut child =
        relay.args(["relay", "run"]).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().expect("a line").unwrap();
    let first = start.elapsed().as_secs_f64();
    pause(2);
    let rss = rss_mb(&child);
    // Killed, not stopped: what was in flight is there for the next run, after its lease.
    child.kill().unwrap();
    child.wait().unwrap();
    pause(1);
    (first, rss)
}

/// The program, built beside this one.
pub(crate) fn binary() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("postroom")
}

/// Seconds of CPU the process has used.
pub(crate) fn cpu(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |n: usize| fields[n].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// What it keeps in memory now.
pub(crate) fn rss_mb(child: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// Kills it.
pub(crate) fn stop(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[allow(clippy::disallowed_methods, reason = "the passing of time is what is measured")]
fn pause(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}
