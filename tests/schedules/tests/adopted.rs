//! Schedules over adopted tables, one of each kind of claim and one of a further route, in the short form that every run of the tests makes. `SEED=17` repeats one, and prints it.

use postroom_schedules::{Under, run};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

#[test]
fn the_promises_of_each_kind_of_claim_hold_at_every_statement_boundary() {
    let mut handed = 0;
    for seed in seeds(4) {
        let report = run(Under::Adopted, seed);
        assert!(report.violations.is_empty(), "{report}");
        handed += report.handed;
    }
    assert!(handed > 0, "nothing was delivered, so nothing was shown");
}
