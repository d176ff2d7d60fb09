//! `simulate [--store memory|postgres|sqlite|adopted] [--seeds N] [--from SEED]`: runs schedules on all cores; what `cargo xtask simulate`
//! calls. Of memory it is the simulation of the engine in `postroom_simulation`.
//! `simulate --store STORE --controls all|FAULT`: puts old faults back, which the schedules must catch.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its purpose")]

use std::num::NonZero;
use std::panic::RefUnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use postroom_schedules::{Report, Under, controls, run};
use postroom_simulation::{self as simulation, Control};

fn main() -> ExitCode {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .init();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (mut from, mut seeds, mut store, mut faults) = (0, None, "memory", None);
    for pair in args.chunks(2) {
        match *pair {
            ["--seeds", n] if n.parse::<u64>().is_ok() => seeds = n.parse().ok(),
            ["--from", n] if n.parse::<u64>().is_ok() => from = n.parse().unwrap_or(from),
            ["--controls", fault] => faults = Some(fault),
            ["--store", name] => store = name,
            _ => return usage(),
        }
    }
    let done = match (store, Under::named(store), faults) {
        ("memory", _, None) => all(store, from, seeds.unwrap_or(2000), in_memory),
        (_, Some(under), None) => all(store, from, seeds.unwrap_or(200), |seed| run(under, seed)),
        (_, Some(under), Some(fault)) => controls(under, (fault != "all").then_some(fault), |line| println!("{line}")),
        _ => return usage(),
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: simulate [--store memory|postgres|sqlite|adopted] [--seeds N] [--from SEED]
       simulate --store postgres|sqlite|adopted --controls all|FAULT"
    );
    ExitCode::from(2)
}

/// The engine over the memory store, with faults between its calls instead of its statements.
fn in_memory(seed: u64) -> Report {
    let ran = simulation::run(seed, Control::None);
    Report {
        violations: ran.violations,
        committed: ran.committed,
        handed: ran.arrivals,
        trace: ran.faults,
        ..Report::new(seed)
    }
}

fn all(store: &str, from: u64, seeds: u64, run: impl Fn(u64) -> Report + Sync + RefUnwindSafe) -> bool {
    let start = Instant::now();
    let (next, committed, handed) = (AtomicU64::new(from), AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || -> Vec<Report> {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + seeds {
                return failed;
            }
            // Whatever a run dies of, the others go on, and its seed is told.
            let report = std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|_| Report::cut_short(seed));
            committed.fetch_add(report.committed, Ordering::Relaxed);
            handed.fetch_add(report.handed, Ordering::Relaxed);
            if !report.violations.is_empty() {
                println!("{report}");
                failed.push(report);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut failed: Vec<Report> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    failed.sort_by_key(|report| report.seed);
    for report in &failed {
        println!("seed {}: {}", report.seed, report.violations.join("; "));
    }
    println!(
        "{seeds} seeds on {store}, {} events committed, {} deliveries, {} seeds failed, {:.0} s",
        committed.into_inner(),
        handed.into_inner(),
        failed.len(),
        start.elapsed().as_secs_f64()
    );
    failed.is_empty()
}
