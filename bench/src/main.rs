//! Benchmarks of the foundation; run by `cargo xtask bench`. Each prints one line: what, how much, against which target.
//!
//! Ratios are taken within one run, baseline and candidate in turn, because machines are noisy.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a benchmark that cannot run has failed")]

mod adopted;
mod engine;
mod http;
mod postgres;
mod process;
mod rounds;
mod sqlite;
mod telemetry;
mod transports;

use std::process::ExitCode;

/// What the program itself runs with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let all = wanted.is_empty();
    if all || wanted == "engine" {
        engine::run();
    }
    if all || wanted == "sqlite" {
        sqlite::run();
    }
    if all || wanted == "telemetry" {
        telemetry::run();
    }
    if all || wanted == "http" {
        http::run();
    }
    if all || wanted == "dev" {
        process::run();
    }
    if wanted == "adopted" {
        return adopted::run(std::env::args().nth(2).as_deref());
    }
    if wanted == "transports" {
        return transports::run(std::env::args().nth(2).as_deref());
    }
    if all || wanted == "postgres" {
        let rest: Vec<String> = std::env::args().skip(2).collect();
        return postgres::run(rest.first().map(String::as_str), rest.get(1).map(String::as_str));
    }
    ExitCode::SUCCESS
}
