//! Faults that the stores once had are put back, one at a time: the schedules must catch each, and find nothing without it.

use postroom_simulation::{Fault, Report, Under, run_for};

/// Most seeds until a fault is caught.
const SEEDS: u64 = 60;

/// `SEED=23 FAULT=ReadCountsAsPassed` runs one seed of one fault, with it and without it, and prints both.
#[test]
fn the_schedules_catch_every_fault_that_is_put_back() {
    let only = std::env::var("FAULT").ok();
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    // Each begins with the seed that caught it last.
    for (fault, first) in [
        (Fault::RetriesFirst, 1),
        (Fault::SegmentsByPlace, 13),
        (Fault::DrawnTooLate, 1),
        (Fault::ReadCountsAsPassed, 23),
    ] {
        if only.as_ref().is_some_and(|only| *only != format!("{fault:?}")) {
            continue;
        }
        let seeds = seed.map_or(first..first + SEEDS, |seed| seed..seed + 1);
        let caught: Option<Report> = seeds
            .into_iter()
            .map(|seed| run_for(Under::Postgres, seed, fault, true))
            .find(|report| !report.violations.is_empty());
        let caught = caught.unwrap_or_else(|| panic!("{fault:?} was not caught in {SEEDS} seeds"));
        println!("{fault:?} is caught by seed {}: {}", caught.seed, caught.violations[0]);
        let without = run_for(Under::Postgres, caught.seed, fault, false);
        assert!(without.violations.is_empty(), "without the fault: {without}");
    }
}
