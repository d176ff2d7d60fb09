//! The PostgreSQL store against what the same server does without it: bare transactions, `COPY`, one relay.
//!
//! Server CPU is that of all its processes, WAL what its insert position moved by. The server is the one of
//! `cargo xtask services up`, or the one in `POSTROOM_BENCH_PG`.

mod drain;
mod server;

use server::Server;

/// Runs all PostgreSQL benchmarks, or the one named.
pub(crate) fn run(only: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = Server::find();
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted("drain") {
        runtime.block_on(drain::run(&server));
    }
}

/// The middle of some values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
