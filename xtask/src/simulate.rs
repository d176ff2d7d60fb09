//! The simulation over many seeds, on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use postroom_conformance::simulation::{self, Control, Report};

/// Which seeds.
pub(crate) struct Wanted {
    from: u64,
    seeds: u64,
}

impl Wanted {
    pub(crate) fn parse(args: &[&str]) -> Option<Self> {
        let mut wanted = Self { from: 0, seeds: 2000 };
        for pair in args.chunks(2) {
            match pair {
                ["--seeds", n] => wanted.seeds = n.parse().ok()?,
                ["--from", n] => wanted.from = n.parse().ok()?,
                _ => return None,
            }
        }
        Some(wanted)
    }
}

/// Runs them; says whether all promises held.
pub(crate) fn run(wanted: &Wanted) -> bool {
    let start = Instant::now();
    let (next, committed, arrivals) = (AtomicU64::new(wanted.from), AtomicUsize::new(0), AtomicUsize::new(0));
    let end = wanted.from + wanted.seeds;
    let worker = || -> Vec<Report> {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return failed;
            }
            let report = simulation::run(seed, Control::None);
            committed.fetch_add(report.committed, Ordering::Relaxed);
            arrivals.fetch_add(report.arrivals, Ordering::Relaxed);
            if !report.violations.is_empty() {
                failed.push(report);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut failed: Vec<Report> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    failed.sort_by_key(|report| report.seed);
    for report in failed.iter().take(5) {
        println!("{report:#?}");
    }
    println!(
        "{} seeds, {} events committed, {} arrivals, {} seeds failed, {:.0} s",
        wanted.seeds,
        committed.into_inner(),
        arrivals.into_inner(),
        failed.len(),
        start.elapsed().as_secs_f64()
    );
    failed.is_empty()
}
