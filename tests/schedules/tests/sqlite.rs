//! Schedules over SQLite, in the short form that every run of the tests makes. `SEED=17` repeats one, and prints it.

use postroom_schedules::{Under, run};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

#[test]
fn the_promises_hold_before_and_after_every_transaction() {
    let mut handed = 0;
    for seed in seeds(5) {
        let report = run(Under::Sqlite, seed);
        assert!(report.violations.is_empty(), "{report}");
        handed += report.handed;
    }
    assert!(handed > 0, "nothing was delivered, so nothing was shown");
}
