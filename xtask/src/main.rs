//! Developer tasks: `cargo xtask test | lint | docs | package | deb | services | seeds | matrix | simulate | stress | faults | soak | bench`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its purpose")]

mod controls;
mod deb;
mod matrix;
mod package;
mod seeds;
mod services;
mod tests;

use std::process::{Command, ExitCode};

const USAGE: &str = "usage:
  cargo xtask lint                        format and lints, warnings are errors; the program also with each feature alone
  cargo xtask docs                        writes the lists of keys and commands and the schema in docs/ anew
  cargo xtask package                     packs the published crates as for a registry, uploads nothing; checks what they
                                          include and say, and the rust-version that the dependencies need
  cargo xtask deb [--profile NAME]        a Debian package of the program (default profile: release), in target/debian
  cargo xtask test [quick|NAME…] [--record] [-- ARGS]
                                          what ./run test calls: builds the tests, starts the servers they need, runs the test programs side by
                                          side; ARGS go to the programs; --record writes the table of CONTRIBUTING.md
  cargo xtask test --needs [quick|NAME…]  the Debian packages they need
  cargo xtask seeds [SYSTEM…]             runs the tests that docs/seeds.md names, by system, and prints how many; refuses what does not
                                          exist or is not about the system
  cargo xtask services up [NAME…]|down [--keep-logs FOLDER]|status
                                          real servers for tests: PostgreSQL, PgBouncer, Kafka, RabbitMQ, NATS, Redis
  cargo xtask matrix [NAME…]              the tests of stores and transports on other versions of their servers, fetched by itself
  cargo xtask simulate [--store memory|postgres|sqlite|adopted] [--seeds N] [--from SEED]
                                          the simulation over N seeds (default 2000); prints what fails. Over a real store
                                          (default 200 seeds): schedules, statement by statement; needs the servers
  cargo xtask controls [FAULT…]           puts faults that were found back, one at a time: an ordinary test must catch each; needs the servers
  cargo xtask stress [--minutes N]        the PostgreSQL store under load while relays die (default 10); prints its figures
  cargo xtask faults [--scale N]          the hazards of the PostgreSQL store in their long forms, and the campaigns, end to end
                                          and of presets, with N times (default 15) the events and faults of a test run; prints their figures
  cargo xtask soak [--minutes N]          relays with every destination and fault for so long (default 30), end to end; memory, tables
                                          and statement times must stay level; prints their figures; needs the servers
  cargo xtask bench [engine|sqlite|telemetry|http|dev]   benchmarks, release build; results belong into bench/RESULTS.md
  cargo xtask bench postgres [append|drain|latency|idle|backlog [EVENTS]|open [EVENTS]|scaling]
                                          the same on PostgreSQL: on the server of `services up`, or of POSTROOM_BENCH_PG
  cargo xtask bench transports [kafka|rabbitmq|nats|redis|webhook|latency|memory]
                                          transports against bare clients on the brokers of `services up`
  cargo xtask bench adopted [holdco|payments|corebilling|back-off]
                                          presets against the workers they replace, on the servers of `services up`";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["lint"] => {
            cargo(&["fmt", "--all", "--check"])
                && cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
                && FEATURES.iter().all(|feature| alone(feature))
        }
        // The lists are made where the keys and the commands are; the tests that compare them can also write them.
        ["docs"] => {
            // The whole workspace's features: what the tests have built already is not built again.
            let write = [("POSTROOM_WRITE_DOCS", "1")];
            cargo_with(&["test", "--quiet", "--workspace", "--test", "server", "docs::"], &write)
                && cargo_with(&["test", "--quiet", "--workspace", "--bin", "postroom", "reference"], &write)
        }
        ["package"] => said(package::check()),
        ["deb"] => deb::package("release"),
        ["deb", "--profile", profile] => deb::package(profile),
        ["services", "up", names @ ..] => said(services::up(names).map(|()| true)),
        ["services", "down"] => said(services::down(None).map(|()| true)),
        ["services", "down", "--keep-logs", folder] => said(services::down(Some(folder.as_ref())).map(|()| true)),
        ["services", "status"] => said(services::status()),
        // A program of its own: this one needs no client.
        ["simulate", rest @ ..] => {
            cargo(&[&["run", "--quiet", "--package", "postroom-schedules", "--"][..], rest].concat())
        }
        ["test", "--needs", names @ ..] => said(tests::needs(names)),
        ["test", args @ ..] => said(tests::run(args)),
        ["seeds", names @ ..] => said(seeds::run(names)),
        ["matrix", names @ ..] => said(matrix::run(names)),
        ["controls", names @ ..] => said(controls::run(names)),
        ["stress"] => stress("10"),
        ["stress", "--minutes", minutes] if minutes.parse::<u64>().is_ok() => stress(minutes),
        ["faults"] => faults("15"),
        ["faults", "--scale", scale] if scale.parse::<usize>().is_ok_and(|scale| scale > 0) => faults(scale),
        ["soak"] => soak("30"),
        ["soak", "--minutes", minutes] if minutes.parse::<u64>().is_ok_and(|minutes| minutes > 0) => soak(minutes),
        ["bench", rest @ ..] if rest.len() <= 3 => {
            let mut call = vec!["run", "--release", "--quiet", "--package", "postroom-bench", "--"];
            call.extend(rest);
            cargo(&["build", "--release", "--quiet", "--bin", "postroom"]) && cargo(&call)
        }
        _ => usage(),
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Features of the program that its code asks for, each to be had without the others; the first is none. Those of brokers
/// only add a transport, and the whole workspace has them.
const FEATURES: &[&str] = &[
    "",
    "adopted",
    "contracts",
    "exec",
    "http",
    "otlp",
    "postgres",
    "webhook",
    "top",
    "support",
    "manual",
    "mimalloc",
];

/// The program with this feature and no other.
fn alone(feature: &str) -> bool {
    let program = ["clippy", "--quiet", "--package", "postroom-cli", "--no-default-features", "--features", feature];
    cargo(&[&program[..], &["--", "-D", "warnings"]].concat())
}

/// The test that every run of the suite makes for some seconds, for longer.
fn stress(minutes: &str) -> bool {
    let test = ["test", "--quiet", "--package", "postroom-postgres", "--test", "postgres", "--"];
    let call = [&test[..], &["position::stress::", "--nocapture"]].concat();
    cargo_with(&call, &[("POSTROOM_STRESS_MINUTES", minutes)])
}

/// The campaigns that every run of the suite makes once, with more of everything, one after the other.
fn faults(scale: &str) -> bool {
    let one_by_one = |package: &str, target: &str, tests: &[&str]| {
        let call = ["test", "--quiet", "--package", package, "--test", target, "--", "--nocapture", "--test-threads=1"];
        cargo_with(&[&call[..], tests].concat(), &[("POSTROOM_FAULTS_SCALE", scale)])
    };
    let hazards =
        ["test", "--quiet", "--package", "postroom-postgres", "--test", "postgres", "--", "--nocapture", "hazards::"];
    let restarts = ["test", "--quiet", "--package", "postroom-rabbitmq", "--test", "rabbitmq", "--", "restarts"];
    let long = [("POSTROOM_FAULTS", "1")];
    cargo_with(&hazards, &long)
        && cargo_with(&restarts, &long)
        && one_by_one("postroom-e2e", "e2e", &["fleet::", "kill::", "brokers::"])
        && one_by_one("postroom-presets", "presets", &["campaign::"])
}

/// The run that every run of the suite makes for half a minute, for longer.
fn soak(minutes: &str) -> bool {
    let call = ["test", "--quiet", "--package", "postroom-e2e", "--test", "e2e", "--", "--nocapture", "soak::"];
    cargo_with(&call, &[("POSTROOM_SOAK_MINUTES", minutes)])
}

fn usage() -> bool {
    eprintln!("{USAGE}");
    false
}

fn said(done: std::io::Result<bool>) -> bool {
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        false
    })
}

/// The cargo that started this, without the variables that describe xtask: build scripts would run again because of them.
pub(crate) fn cargo_command() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn cargo(args: &[&str]) -> bool {
    cargo_with(args, &[])
}

fn cargo_with(args: &[&str], env: &[(&str, &str)]) -> bool {
    match cargo_command().args(args).envs(env.iter().copied()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("error: cargo {} cannot be started: {error}", args.join(" "));
            false
        }
    }
}
