//! `simulate --store postgres|sqlite|adopted [--seeds N] [--from SEED]`: runs schedules on all cores; what `cargo xtask simulate` calls.
//! `simulate --store STORE --controls all|FAULT`: puts old faults back, which the schedules must catch.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its purpose")]

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use postroom_simulation::{Report, Under, controls, run};

fn main() -> ExitCode {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .init();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut from, mut seeds, mut under, mut faults) = (0, 200, None, None);
    for pair in args.chunks(2) {
        match pair {
            [name, n] if name == "--seeds" => seeds = n.parse().unwrap_or(seeds),
            [name, n] if name == "--from" => from = n.parse().unwrap_or(from),
            [name, fault] if name == "--controls" => faults = Some(fault.as_str()),
            [name, store] if name == "--store" => under = Under::named(store),
            _ => under = None,
        }
    }
    let Some(under) = under else {
        eprintln!("usage: simulate --store postgres|sqlite|adopted [--seeds N] [--from SEED] | --controls all|FAULT");
        return ExitCode::from(2);
    };
    if let Some(fault) = faults {
        let caught = controls(under, (fault != "all").then_some(fault), |line| println!("{line}"));
        return if caught { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if all(under, from, seeds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all(under: Under, from: u64, seeds: u64) -> bool {
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
            let report = std::panic::catch_unwind(|| run(under, seed)).unwrap_or_else(|_| Report::cut_short(seed));
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
        "{seeds} seeds on {under:?}, {} events committed, {} deliveries, {} seeds failed, {:.0} s",
        committed.into_inner(),
        handed.into_inner(),
        failed.len(),
        start.elapsed().as_secs_f64()
    );
    failed.is_empty()
}
