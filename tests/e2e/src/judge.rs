//! The end of a campaign: delivers what is left, and compares everything.

use std::collections::BTreeMap;

use crate::checker::{Evidence, Findings};
use crate::journal::Reception;
use crate::ledger::Ledger;
use crate::world::World;

/// What a campaign's relays were told.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'t> {
    /// Their routes.
    pub routes: &'t [&'t str],
    /// The bound of what a fault may repeat.
    pub in_flight_max: usize,
}

impl Terms<'_> {
    /// As [`Terms::compare`], of a run in which something was to be tried again.
    pub fn judge(&self, world: &World, ledger: &Ledger, faults: &BTreeMap<u32, usize>) -> Findings {
        let findings = self.compare(world, ledger, faults);
        assert!(world.journal().read().iter().any(|r| r.attempt > 1), "it was a real run");
        findings
    }

    /// Finds nothing lost, invented, swapped, or repeated more often than the faults explain; the program's own count must agree.
    pub fn compare(&self, world: &World, ledger: &Ledger, faults: &BTreeMap<u32, usize>) -> Findings {
        Self::settle(world);
        self.check(ledger, &world.journal().read(), faults)
    }

    /// Delivers what is left; the program's own count must agree.
    pub fn settle(world: &World) {
        world.ok(&["relay", "run", "--drain"]);
        let verified = world.run(&["verify"]);
        assert_eq!(verified.code, 0, "verification finds nothing missing: {}{}", verified.stdout, verified.stderr);
        assert_eq!(world.json(&["dead", "ls"]), serde_json::json!([]), "nobody planted a dead letter");
    }

    /// Finds nothing wrong with what was received.
    pub fn check(&self, ledger: &Ledger, receptions: &[Reception], faults: &BTreeMap<u32, usize>) -> Findings {
        let Self { routes, in_flight_max } = *self;
        let findings = Evidence { ledger, receptions, routes, faults, in_flight_max }.check();
        assert_eq!(findings.violations, [""; 0], "{findings}");
        assert!(!ledger.rolled_back.is_empty(), "it was a real run");
        findings
    }
}
