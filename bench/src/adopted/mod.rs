//! Systems on their presets, with their tables as they define them, against the workers that they had.
//!
//! Those are written the way the systems describe them: a batch of 100 is locked, published one by one with confirms, and
//! marked. Candidate and baselines in turn, in one run, the middle of the ratios. Needs the servers of `cargo xtask services up`.

mod back_off;
mod corebilling;
mod holdco;
mod payments;
mod system;
mod worker;

use std::process::ExitCode;

use postroom_testbed::Servers;

use crate::postgres::Server;

/// What there is, in the order it is run.
const NAMES: [&str; 4] = ["holdco", "payments", "corebilling", "back-off"];
const ROUNDS: usize = 3;

/// Runs all of them, or the one named.
pub(crate) fn run(only: Option<&str>) -> ExitCode {
    if let Some(unknown) = only.filter(|only| !NAMES.contains(only)) {
        println!("error: there is no benchmark {unknown:?}; there are {}", NAMES.join(", "));
        return ExitCode::FAILURE;
    }
    let (server, servers) = (Server::find().unwrap(), Servers::find());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!("adopted, {}", server.about().await.unwrap());
        for name in NAMES.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
            match name {
                "holdco" => holdco::run(&server, &servers).await,
                "payments" => payments::run(&server, &servers).await,
                "corebilling" => corebilling::run(&server).await,
                _ => back_off::run(&server).await,
            }
            server.discard_all().await;
        }
    });
    ExitCode::SUCCESS
}
