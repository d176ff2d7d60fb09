//! Compares what was written with what was received: nothing lost, no ghosts, order per key, few duplicates.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::journal::{Answer, Reception};
use crate::ledger::Ledger;

/// Everything known of one run.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// What the producers did.
    pub ledger: &'a Ledger,
    /// What the children received, in order.
    pub receptions: &'a [Reception],
    /// The routes; every one wants every event.
    pub routes: &'a [&'a str],
    /// How often each relay process was killed, stopped or robbed of its lease, by process id.
    pub faults: &'a BTreeMap<u32, usize>,
    /// How many deliveries one fault may repeat.
    pub in_flight_max: usize,
}

/// What the checker counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Committed events that a route never answered with yes.
    pub lost: usize,
    /// Received, but never committed, or with another content.
    pub ghosts: usize,
    /// Received or delivered for the first time after a later one of their key.
    pub inversions: usize,
    /// Received again although the same try, or the whole delivery, was over.
    pub duplicates: usize,
    /// How many duplicates the faults allow.
    pub duplicates_max: usize,
    /// What did not hold, in words.
    pub violations: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, ghosts, inversions, duplicates, duplicates_max, .. } = self;
        write!(
            f,
            "{lost} lost, {ghosts} ghosts, {inversions} inversions, {duplicates} duplicates of {duplicates_max} allowed"
        )
    }
}

impl Evidence<'_> {
    /// Checks all of it.
    pub fn check(&self) -> Findings {
        let mut findings = Findings::default();
        self.lost(&mut findings);
        self.ghosts(&mut findings);
        self.inversions(&mut findings);
        self.duplicates(&mut findings);
        findings
    }

    fn lost(&self, findings: &mut Findings) {
        let delivered: HashSet<(&str, &str)> =
            self.receptions.iter().filter(|r| r.answer == Answer::Ok).map(|r| (&*r.route, &*r.id)).collect();
        for written in &self.ledger.committed {
            for route in self.routes.iter().filter(|route| !delivered.contains(&(**route, &*written.id))) {
                findings.lost += 1;
                findings.violations.push(format!("lost: {} number {} on {route}", written.key, written.number));
            }
        }
    }

    fn ghosts(&self, findings: &mut Findings) {
        let committed: HashMap<&str, (&str, u64)> =
            self.ledger.committed.iter().map(|w| (&*w.id, (&*w.key, w.number))).collect();
        for reception in self.receptions {
            if committed.get(&*reception.id) != Some(&(&*reception.key, reception.number)) {
                findings.ghosts += 1;
                let why =
                    if self.ledger.rolled_back.contains(&reception.id) { "rolled back" } else { "never written so" };
                findings.violations.push(format!("ghost, {why}: {reception}"));
            }
        }
    }

    /// Both the first time a number is received and the first time it is answered with yes follow the numbers.
    fn inversions(&self, findings: &mut Findings) {
        for only_delivered in [false, true] {
            let mut seen: HashSet<(&str, &str)> = HashSet::new();
            let mut last: HashMap<(&str, &str), u64> = HashMap::new();
            for r in self.receptions.iter().filter(|r| !only_delivered || r.answer == Answer::Ok) {
                if !seen.insert((&r.route, &r.id)) {
                    continue;
                }
                let last = last.entry((&r.route, &r.key)).or_default();
                if r.number < *last {
                    findings.inversions += 1;
                    findings.violations.push(format!("inversion: number {last} came before {r}"));
                }
                *last = r.number;
            }
        }
    }

    fn duplicates(&self, findings: &mut Findings) {
        let faults = |relay: u32| self.faults.get(&relay).copied().unwrap_or(0);
        let mut before: HashMap<(&str, &str), &Reception> = HashMap::new();
        // Whose delivery was repeated, and who repeated it.
        let mut pairs: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for r in self.receptions {
            // The next try after an answered failure is no duplicate; the same try again is one.
            if let Some(earlier) = before.insert((&r.route, &r.id), r)
                && (earlier.answer == Answer::Ok || r.attempt <= earlier.attempt)
            {
                findings.duplicates += 1;
                *pairs.entry((earlier.relay, r.relay)).or_default() += 1;
            }
        }
        findings.duplicates_max = self.faults.values().sum::<usize>() * self.in_flight_max;
        let most = |relay: u32| faults(relay) * self.in_flight_max;
        for (relay, duplicates) in blamed(&pairs, most) {
            let most = most(relay);
            if duplicates > most {
                findings.violations.push(format!("{duplicates} duplicates for relay {relay}, its faults allow {most}"));
            }
        }
    }
}

/// How many duplicates each relay has to answer for. Usually the relay that had it first could not say so; one that was stopped
/// may also be late itself: what is more than the first could cause is the second one's, as far as it could.
fn blamed(pairs: &BTreeMap<(u32, u32), usize>, most: impl Fn(u32) -> usize) -> BTreeMap<u32, usize> {
    let mut blamed: BTreeMap<u32, usize> = BTreeMap::new();
    for ((first, _), duplicates) in pairs {
        *blamed.entry(*first).or_default() += duplicates;
    }
    for ((first, second), duplicates) in pairs.iter().filter(|((first, second), _)| first != second) {
        let (before, after) = (blamed.get(first).copied().unwrap_or(0), blamed.get(second).copied().unwrap_or(0));
        let over = before.saturating_sub(most(*first)).min(*duplicates);
        let moved = if most(*first) == 0 { over } else { over.min(most(*second).saturating_sub(after)) };
        *blamed.entry(*first).or_default() -= moved;
        *blamed.entry(*second).or_default() += moved;
    }
    blamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Written;

    const IN_FLIGHT_MAX: usize = 2;

    /// A run without a flaw: ten events of two keys on two routes; relay 1 was killed once, which repeated two.
    fn run() -> (Ledger, Vec<Reception>) {
        let written = |n: u64| Written { id: format!("e-{n}"), key: format!("k-{}", n % 2), number: n / 2 + 1 };
        let committed: Vec<Written> = (0..10).map(written).collect();
        let mut receptions = Vec::new();
        for w in &committed {
            for route in ["a", "b"] {
                let relay = if w.number < 4 { 1 } else { 2 };
                let mut r = Reception {
                    relay,
                    route: route.to_owned(),
                    id: w.id.clone(),
                    key: w.key.clone(),
                    number: w.number,
                    attempt: 1,
                    answer: Answer::Ok,
                };
                if w.id == "e-4" {
                    // A failure that was answered, and its second try.
                    r.answer = Answer::Again;
                    receptions.push(r.clone());
                    r = Reception { attempt: 2, answer: Answer::Ok, ..r };
                }
                receptions.push(r.clone());
                if w.id == "e-5" {
                    receptions.push(Reception { relay: 2, ..r });
                }
            }
        }
        let rolled_back = HashSet::from(["e-x".to_owned()]);
        (Ledger { committed, rolled_back, ..Ledger::default() }, receptions)
    }

    fn check(ledger: &Ledger, receptions: &[Reception]) -> Findings {
        let faults = BTreeMap::from([(1, 1)]);
        Evidence { ledger, receptions, routes: &["a", "b"], faults: &faults, in_flight_max: IN_FLIGHT_MAX }.check()
    }

    #[test]
    fn a_run_without_a_flaw_is_found_without_one() {
        let (ledger, receptions) = run();
        let findings = check(&ledger, &receptions);
        assert_eq!(findings, Findings { duplicates: 2, duplicates_max: 2, ..Findings::default() });
    }

    #[test]
    fn one_event_that_is_missing_on_one_route_is_lost() {
        let (ledger, mut receptions) = run();
        receptions.retain(|r| !(r.id == "e-3" && r.route == "b"));
        let findings = check(&ledger, &receptions);
        assert_eq!((findings.lost, findings.violations.len()), (1, 1), "{findings:?}");
    }

    #[test]
    fn an_event_that_was_only_ever_refused_is_lost() {
        let (ledger, mut receptions) = run();
        receptions.retain(|r| !(r.id == "e-4" && r.route == "a" && r.answer == Answer::Ok));
        assert_eq!(check(&ledger, &receptions).lost, 1);
    }

    #[test]
    fn what_was_rolled_back_invented_or_changed_is_a_ghost() {
        for doctor in [
            (|r: &mut Reception| r.id = "e-x".to_owned()) as fn(&mut Reception),
            |r| r.id = "e-unheard-of".to_owned(),
            |r| r.number = 99,
        ] {
            let (ledger, mut receptions) = run();
            let mut ghost = receptions.last().unwrap().clone();
            doctor(&mut ghost);
            receptions.push(ghost);
            let findings = check(&ledger, &receptions);
            assert_eq!(findings.ghosts, 1, "{findings:?}");
        }
    }

    #[test]
    fn two_of_a_key_swapped_are_an_inversion() {
        let (ledger, mut receptions) = run();
        let place = |id: &str| receptions.iter().position(|r| r.id == id && r.route == "a").unwrap();
        let (one, other) = (place("e-6"), place("e-8"));
        receptions.swap(one, other);
        let findings = check(&ledger, &receptions);
        assert!(findings.inversions > 0 && findings.lost == 0 && findings.duplicates == 2, "{findings:?}");
    }

    #[test]
    fn one_that_overtakes_a_failed_one_is_an_inversion() {
        let (ledger, mut receptions) = run();
        let second_try = receptions.iter().position(|r| r.id == "e-4" && r.route == "a" && r.attempt == 2).unwrap();
        let late = receptions.remove(second_try);
        receptions.push(late);
        assert!(check(&ledger, &receptions).inversions > 0);
    }

    #[test]
    fn one_duplicate_more_than_the_fault_allows_is_too_many() {
        let (ledger, mut receptions) = run();
        let again = receptions.iter().find(|r| r.id == "e-2").unwrap().clone();
        receptions.push(Reception { relay: 2, ..again });
        let findings = check(&ledger, &receptions);
        assert_eq!((findings.duplicates, findings.violations.len()), (3, 1), "{findings:?}");
    }

    #[test]
    fn a_duplicate_nobody_has_an_excuse_for_is_one_too_many() {
        let (ledger, mut receptions) = run();
        receptions.push(receptions.last().unwrap().clone());
        let findings = check(&ledger, &receptions);
        assert_eq!(findings.violations, ["1 duplicates for relay 2, its faults allow 0"]);
    }

    #[test]
    fn the_same_try_twice_is_a_duplicate_even_if_it_was_refused() {
        let (ledger, mut receptions) = run();
        let first = receptions.iter().position(|r| r.id == "e-4" && r.route == "a").unwrap();
        receptions.insert(first, receptions[first].clone());
        assert_eq!(check(&ledger, &receptions).duplicates, 3);
    }

    #[test]
    fn what_the_first_could_not_cause_is_the_seconds_as_far_as_it_could() {
        let most = |relay: u32| [0, 16, 16, 0][relay as usize];
        let blamed = |pairs: &[((u32, u32), usize)]| blamed(&pairs.iter().copied().collect(), most);
        assert_eq!(blamed(&[((1, 2), 28)]), [(1, 16), (2, 12)].into(), "one that was frozen was late");
        assert_eq!(blamed(&[((1, 2), 40)]), [(1, 24), (2, 16)].into(), "more than both could cause");
        assert_eq!(blamed(&[((1, 1), 28)]), [(1, 28)].into(), "its own cannot be another's");
        assert_eq!(blamed(&[((0, 3), 5)]), [(0, 0), (3, 5)].into(), "neither suffered anything");
    }
}
