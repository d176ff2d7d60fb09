//! What a relay with nothing to do costs, on its own side and on the server's.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::PgPool;

use super::Server;
use crate::process::{binary, cpu, rss_mb, stop};

const MEASURED: Duration = Duration::from_secs(20);

pub(crate) async fn run(server: &Server) {
    let (_store, pool) = server.store("idle").await;
    let folder = tempfile::tempdir().unwrap();
    let route = |name| format!("[[route]]\nname = \"{name}\"\nto = {{ noop = {{}} }}\n");
    let routes: String = ["billing", "mail", "search"].map(route).concat();
    configure(folder.path(), &server.url("bench_idle"), &routes);
    let alone = server_share(server, &pool).await;
    let (bare_own, bare) = bare_loop(server, &pool).await;
    let mut relay = start(folder.path(), Stdio::null());
    // Lanes are taken and everything has been looked at once.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (before, start) = (cpu(relay.id()), Instant::now());
    let served = server_share(server, &pool).await;
    let own = (cpu(relay.id()) - before) / start.elapsed().as_secs_f64() * 100.0;
    let rss = rss_mb(&relay);
    stop(&mut relay);
    println!(
        "postgres, idle: a bare loop that sends `select 1` every 50 ms takes {:.2} % of a core ({bare_own:.2} % loop, {bare:.2} % server)",
        bare_own + bare
    );
    println!(
        "postgres, idle relay, 3 routes × 16 lanes: {:.2} % of a core ({own:.2} % relay, {served:.2} % server, which takes {alone:.2} % without it), {rss:.0} MB RSS (targets ≤ 0.5 %, ≤ 50 MB)",
        own + served
    );
}

/// What the least takes that looks as often as a relay: the shares of this process and of the server.
async fn bare_loop(server: &Server, pool: &PgPool) -> (f64, f64) {
    let mut conn = pool.acquire().await.unwrap();
    let poll = tokio::spawn(async move {
        loop {
            sqlx::query("select 1").execute(&mut *conn).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let (before, start) = (cpu(std::process::id()), Instant::now());
    let served = server_share(server, pool).await;
    let own = (cpu(std::process::id()) - before) / start.elapsed().as_secs_f64() * 100.0;
    poll.abort();
    (own, served)
}

/// Writes the configuration of a store with these routes.
pub(super) fn configure(folder: &Path, url: &str, routes: &str) {
    let text = format!("[log]\nlevel = \"warn\"\n[store.main]\nurl = \"{url}\"\n{routes}");
    std::fs::write(folder.join("postroom.toml"), text).unwrap();
}

/// Starts a relay as people do.
pub(super) fn start(folder: &Path, stdout: Stdio) -> Child {
    let mut relay = Command::new(binary());
    relay.args(["relay", "run"]).current_dir(folder).stdout(stdout).stderr(Stdio::inherit());
    relay.spawn().expect("the program, built by cargo build --release --bin postroom")
}

/// The share of a core that the server takes, in percent.
async fn server_share(server: &Server, pool: &PgPool) -> f64 {
    let (before, start) = (server.spent(pool).await, Instant::now());
    tokio::time::sleep(MEASURED).await;
    server.spent(pool).await.cpu_us(before) / start.elapsed().as_secs_f64() / 10_000.0
}
