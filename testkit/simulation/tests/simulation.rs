//! The promises hold over many seeds, and the checker catches every broken variant.

use postroom_simulation::{self as simulation, Control};

/// One seed to run again: `SEED=17 cargo test -p postroom-simulation --test simulation`.
fn seeds() -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..250).collect(),
    }
}

#[test]
fn the_promises_hold_under_every_fault() {
    let mut arrivals = 0;
    for seed in seeds() {
        let report = simulation::run(seed, Control::None);
        arrivals += report.arrivals;
        assert!(report.violations.is_empty(), "seed {seed}: {report:#?}");
    }
    assert!(arrivals > 0, "nothing was delivered, so nothing was shown");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..15 {
        let digests = [(); 2].map(|()| simulation::run(seed, Control::None).digest);
        assert_eq!(digests[0], digests[1], "seed {seed}");
    }
}

#[test]
fn the_checker_catches_every_broken_variant() {
    for control in Control::BROKEN {
        let caught = (0..300).find(|seed| !simulation::run(*seed, control).violations.is_empty());
        let seed = caught.unwrap_or_else(|| panic!("{control:?} was not caught in 300 seeds"));
        println!("{control:?} is caught by seed {seed}: {}", simulation::run(seed, control).violations[0]);
    }
}
