//! The PostgreSQL store against what the same server does without it: bare transactions, `COPY`, one relay.
//!
//! Server CPU is that of all its processes, WAL what its insert position moved by. The server is the one of
//! `cargo xtask services up`, or the one in `POSTROOM_BENCH_PG`.

mod append;
mod backlog;
mod drain;
mod idle;
mod latency;
mod open;
mod scaling;
mod server;

use std::process::ExitCode;

pub(crate) use server::Server;

/// What there is, in the order it is run.
const NAMES: [&str; 7] = ["append", "drain", "latency", "idle", "backlog", "open", "scaling"];

/// Runs all PostgreSQL benchmarks, or the one named; `backlog` and `open` may be told how many events.
pub(crate) fn run(only: Option<&str>, size: Option<&str>) -> ExitCode {
    match measure(only, size) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(only: Option<&str>, size: Option<&str>) -> Result<(), String> {
    if let Some(unknown) = only.filter(|only| !NAMES.contains(only)) {
        return Err(format!("there is no benchmark {unknown:?}; there are {}", NAMES.join(", ")));
    }
    let events = size.map_or(Ok(backlog::EVENTS), |size| {
        size.parse().map_err(|_| format!("{size:?} is no number of events, for instance 1000000"))
    })?;
    let server = Server::find()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!("postgres, {}", server.about().await?);
        for name in NAMES.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
            match name {
                "append" => append::run(&server).await,
                "drain" => drain::run(&server).await,
                "latency" => latency::run(&server).await,
                "idle" => idle::run(&server).await,
                "backlog" => backlog::run(&server, events).await,
                "open" => open::run(&server, events).await,
                _ => scaling::run(&server).await,
            }
            server.discard_all().await;
        }
        Ok(())
    })
}

/// The middle of some values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
