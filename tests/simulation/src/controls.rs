//! Faults that the stores once had are put back, one at a time: the schedules must catch each, and find nothing without it.

use crate::{Fault, Under, run_for};

/// Most seeds until a fault is caught: how likely one is depends on how fast this machine is today.
const SEEDS: u64 = 300;

/// Puts each fault back until it is caught, or the one of this name; says in a line each which seed caught it. Whether all were.
pub fn controls(only: Option<&str>, mut say: impl FnMut(&str)) -> bool {
    let mut all = true;
    // Each begins with a seed that has caught it.
    for (fault, first) in [
        (Fault::SegmentsByPlace, 13),
        (Fault::DrawnTooLate, 1),
        (Fault::RetriesFirst, 1),
        (Fault::ReadCountsAsPassed, 23),
    ] {
        if only.is_some_and(|only| only != format!("{fault:?}")) {
            continue;
        }
        let mut reports = (first..first + SEEDS).map(|seed| run_for(Under::Postgres, seed, fault, true));
        let Some(caught) = reports.find(|report| !report.violations.is_empty()) else {
            say(&format!("{fault:?} was not caught in {SEEDS} seeds"));
            all = false;
            continue;
        };
        say(&format!("{fault:?} is caught by seed {}: {}", caught.seed, caught.violations[0]));
        let without = run_for(Under::Postgres, caught.seed, fault, false);
        if !without.violations.is_empty() {
            say(&format!("without the fault: {without}"));
            all = false;
        }
    }
    all
}
