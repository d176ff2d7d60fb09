//! Faults that the stores once had are put back, one at a time: the schedules must catch each, and find nothing without it.

use postroom_adopted::faults::{self as adopted, Fault as Adopted};
use postroom_conformance::servers::Cluster;
use postroom_postgres::faults::{self as postgres, Fault as Postgres};
use postroom_sqlite::faults::{self as sqlite, Fault as Sqlite};

use crate::scenes::Scene;
use crate::{Report, Under, run_with, runtime};

/// Most seeds until a fault is caught. The first one should; a machine that is very busy may take another way.
const SEEDS: u64 = 5;

/// Every fault, and the scene in which it shows.
const ALL: [(Old, Scene); 9] = [
    (Old::Postgres(Postgres::ParkedIsForgotten), Scene::BlockerLeaves),
    (Old::Postgres(Postgres::SegmentsByPlace), Scene::TurnOfTheRing),
    (Old::Postgres(Postgres::DrawnTooLate), Scene::Newcomer),
    (Old::Postgres(Postgres::RetriesFirst), Scene::RetriesAreDue),
    (Old::Postgres(Postgres::ReadCountsAsPassed), Scene::TurnAndJoin),
    (Old::Sqlite(Sqlite::RetriesFirst), Scene::RetriesAreDue),
    (Old::Sqlite(Sqlite::Unfenced), Scene::StandsStill),
    (Old::Adopted(Adopted::AliveWhateverTheClock), Scene::SetBack),
    (Old::Adopted(Adopted::UntriedClaimsCount), Scene::Restarts),
];

/// A fault of a store.
#[derive(Debug, Clone, Copy)]
enum Old {
    Postgres(Postgres),
    Sqlite(Sqlite),
    Adopted(Adopted),
}

impl Old {
    fn name(self) -> String {
        match self {
            Self::Postgres(fault) => format!("{fault:?}"),
            Self::Sqlite(fault) => format!("{fault:?}"),
            Self::Adopted(fault) => format!("{fault:?}"),
        }
    }

    fn under(self) -> Under {
        match self {
            Self::Postgres(_) => Under::Postgres,
            Self::Sqlite(_) => Under::Sqlite,
            Self::Adopted(_) => Under::Adopted,
        }
    }

    /// The first seed: of adopted tables it decides how rows are claimed.
    fn seed(self, nth: u64) -> u64 {
        match self {
            Self::Adopted(Adopted::UntriedClaimsCount) => 3 * nth + 1,
            Self::Postgres(_) | Self::Sqlite(_) | Self::Adopted(_) => 3 * nth,
        }
    }

    /// Puts it back, or takes it out again, in the whole process: one run at a time.
    fn put_back(self, there: bool) {
        match self {
            Self::Postgres(fault) => postgres::put_back(there.then_some(fault)),
            Self::Sqlite(fault) => sqlite::put_back(there.then_some(fault)),
            Self::Adopted(fault) => adopted::put_back(there.then_some(fault)),
        }
    }
}

/// Puts each fault of a store back until it is caught, or the one of this name; says in a line each which seed caught it. Whether all
/// were, and nothing was found without them.
pub fn controls(under: Under, only: Option<&str>, mut say: impl FnMut(&str)) -> bool {
    let cluster =
        (under == Under::Postgres).then(|| runtime().block_on(Cluster::start(&[("max_prepared_transactions", "20")])));
    let mut all = true;
    for (fault, scene) in ALL {
        let name = fault.name();
        if fault.under() != under || only.is_some_and(|only| only != name) {
            continue;
        }
        let began = std::time::Instant::now();
        let run = |seed, there| -> Report {
            fault.put_back(there);
            let report = run_with(under, seed, Some(scene), cluster.as_ref());
            fault.put_back(false);
            report
        };
        let mut reports = (0..SEEDS).map(|nth| run(fault.seed(nth), true));
        let Some(caught) = reports.find(|report| !report.violations.is_empty()) else {
            say(&format!("{name} was not caught in {SEEDS} seeds: {}", run(fault.seed(0), true)));
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
