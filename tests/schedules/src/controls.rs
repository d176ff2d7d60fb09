//! Faults that the stores once had are put back, one at a time: the schedules must catch each, and find nothing without it.

use postroom_core::faults::{Fault, put_back};
use postroom_testbed::Cluster;

use crate::scenes::Scene;
use crate::{Report, Under, run_with, runtime};

/// Most seeds until a fault is caught. The first one should; a machine that is very busy may take another way.
const SEEDS: u64 = 5;

/// A fault of a store, and the scene in which it shows.
struct Control {
    under: Under,
    fault: Fault,
    scene: Scene,
}

const fn control(under: Under, fault: Fault, scene: Scene) -> Control {
    Control { under, fault, scene }
}

const ALL: [Control; 10] = [
    control(Under::Postgres, Fault::ParkedIsForgotten, Scene::BlockerLeaves),
    control(Under::Postgres, Fault::SegmentsModuloPartitions, Scene::TurnOfThePartitions),
    control(Under::Postgres, Fault::DrawnTooLate, Scene::Newcomer),
    control(Under::Postgres, Fault::RetriesFirst, Scene::RetriesAreDue),
    control(Under::Postgres, Fault::ReadCountsAsPassed, Scene::TurnAndJoin),
    control(Under::Sqlite, Fault::RetriesFirst, Scene::RetriesAreDue),
    control(Under::Sqlite, Fault::Unfenced, Scene::StandsStill),
    control(Under::Adopted, Fault::AliveWhateverTheClock, Scene::SetBack),
    control(Under::Adopted, Fault::UntriedClaimsCount, Scene::Restarts),
    control(Under::Adopted, Fault::FurtherIsForgotten, Scene::Restarts),
];

impl Control {
    /// The first seed and those after it: of adopted tables it decides how rows are claimed, and by how many routes.
    fn seed(&self, nth: u64) -> u64 {
        let kind = match self.fault {
            Fault::UntriedClaimsCount => 1,
            Fault::FurtherIsForgotten => 3,
            _ => 0,
        };
        4 * nth + kind
    }
}

/// Puts each fault of a store back until it is caught, or the one of this name; says in a line each which seed caught it. Whether all
/// were, and nothing was found without them.
pub fn controls(under: Under, only: Option<&str>, mut say: impl FnMut(&str)) -> bool {
    let cluster =
        (under == Under::Postgres).then(|| runtime().block_on(Cluster::start(&[("max_prepared_transactions", "20")])));
    let mut all = true;
    for control in ALL {
        let name = format!("{:?}", control.fault);
        if control.under != under || only.is_some_and(|only| only != name) {
            continue;
        }
        let began = std::time::Instant::now();
        let run = |seed, there: bool| -> Report {
            put_back(there.then_some(control.fault));
            let report = run_with(under, seed, Some(control.scene), cluster.as_ref());
            put_back(None);
            report
        };
        let mut reports = (0..SEEDS).map(|nth| run(control.seed(nth), true));
        let Some(caught) = reports.find(|report| !report.violations.is_empty()) else {
            say(&format!("{name} was not caught in {SEEDS} seeds: {}", run(control.seed(0), true)));
            all = false;
            continue;
        };
        let seconds = began.elapsed().as_secs();
        say(&format!("{name} is caught by seed {} in {seconds} s: {}", caught.seed, caught.violations[0]));
        let without = run(caught.seed, false);
        if !without.violations.is_empty() {
            say(&format!("without the fault: {without}"));
            all = false;
        }
    }
    all
}
