//! Decides after a run whether the promises held.

use std::collections::{BTreeMap, HashMap, HashSet};

use postroom_core::view::Timeline;

use super::destination::{Arrival, Said};

/// Everything the checker knows of one run.
pub(super) struct Journal {
    /// Committed events in commit order.
    pub(super) committed: Vec<Committed>,
    /// Ids of events whose transaction rolled back.
    pub(super) rolled_back: HashSet<String>,
    /// What took effect at the destination, in order.
    pub(super) arrivals: Vec<Arrival>,
    /// What the destination said about each event.
    pub(super) said: HashMap<String, Said>,
    /// What the store knows of each event in the end.
    pub(super) timelines: HashMap<String, Timeline>,
    /// Ids that were a dead letter, or that an operator gave up, replayed or let others pass.
    pub(super) touched: HashSet<String>,
    /// Dead letters in the end.
    pub(super) dead: HashSet<String>,
    /// Duplicates the faults of this run may cost.
    pub(super) duplicates_max: usize,
    /// Tries in all before an event is given up.
    pub(super) attempts: u32,
    /// Hand-overs by a relay that held no lease.
    pub(super) unleased: u64,
    /// Settles under an old term that were not refused.
    pub(super) unfenced: u64,
    /// Effects of the consumer per event.
    pub(super) effects: HashMap<String, u32>,
    /// Differences the audit found.
    pub(super) audit: Vec<String>,
    /// Whether everything came to an end in time.
    pub(super) finished: bool,
}

/// One committed event.
#[derive(Debug, Clone)]
pub(super) struct Committed {
    pub(super) id: String,
    /// Its key, if order is promised for it.
    pub(super) key: Option<String>,
}

/// What did not hold, in words; empty when all did.
pub(super) fn violations(journal: &Journal) -> Vec<String> {
    let mut found = Vec::new();
    if !journal.finished {
        found.push("P7: not everything came to an end although all faults are over".to_owned());
    }
    no_loss(journal, &mut found);
    no_ghosts(journal, &mut found);
    order_per_key(journal, &mut found);
    bounded_duplicates(journal, &mut found);
    effects_once(journal, &mut found);
    bad_stay_alone(journal, &mut found);
    if journal.unleased > 0 {
        found.push(format!("lease: {} hand-overs by a relay without a lease", journal.unleased));
    }
    if journal.unfenced > 0 {
        found.push(format!("fence: {} settles under an old term were not refused", journal.unfenced));
    }
    found.extend(journal.audit.iter().map(|difference| format!("audit: {difference}")));
    found
}

fn no_loss(journal: &Journal, found: &mut Vec<String>) {
    let arrived: HashSet<&str> = journal.arrivals.iter().map(|a| a.id.as_str()).collect();
    for event in &journal.committed {
        let given_up = journal.dead.contains(&event.id) || journal.touched.contains(&event.id);
        if journal.finished && !arrived.contains(event.id.as_str()) && !given_up {
            found.push(format!("P1: {} never arrived and is no dead letter", event.id));
        }
    }
}

fn no_ghosts(journal: &Journal, found: &mut Vec<String>) {
    for arrival in &journal.arrivals {
        if journal.rolled_back.contains(&arrival.id) {
            found.push(format!("P2: {} arrived although its transaction rolled back", arrival.id));
        }
    }
}

fn order_per_key(journal: &Journal, found: &mut Vec<String>) {
    let place: HashMap<&str, (usize, &str)> = journal
        .committed
        .iter()
        .enumerate()
        .filter_map(|(n, event)| event.key.as_deref().map(|key| (event.id.as_str(), (n, key))))
        .filter(|(id, _)| !journal.touched.contains(*id))
        .collect();
    let mut last: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut seen = HashSet::new();
    for arrival in &journal.arrivals {
        let Some((n, key)) = place.get(arrival.id.as_str()) else { continue };
        if !seen.insert(arrival.id.as_str()) {
            continue;
        }
        if let Some((before, id)) = last.get(key)
            && before > n
        {
            found.push(format!("P3: key {key}: {} first arrived after {id}", arrival.id));
        }
        last.insert(key, (*n, &arrival.id));
    }
}

/// A copy counts when the copy before it was acknowledged, or its relay never learnt: those are what a crash costs.
fn bounded_duplicates(journal: &Journal, found: &mut Vec<String>) {
    let mut acknowledged: HashMap<&str, bool> = HashMap::new();
    let mut duplicates = 0;
    for arrival in journal.arrivals.iter().filter(|a| !journal.touched.contains(&a.id)) {
        if acknowledged.get(arrival.id.as_str()) == Some(&true) {
            duplicates += 1;
        }
        acknowledged.insert(&arrival.id, arrival.acknowledged);
    }
    if duplicates > journal.duplicates_max {
        found.push(format!("P4: {duplicates} duplicates, the faults allow {}", journal.duplicates_max));
    }
}

fn effects_once(journal: &Journal, found: &mut Vec<String>) {
    for (id, times) in &journal.effects {
        if *times > 1 {
            found.push(format!("P5: the effect of {id} happened {times} times"));
        }
    }
    for arrival in &journal.arrivals {
        if !journal.effects.contains_key(&arrival.id) {
            found.push(format!("P5: {} arrived and had no effect", arrival.id));
        }
    }
}

fn bad_stay_alone(journal: &Journal, found: &mut Vec<String>) {
    for (id, timeline) in &journal.timelines {
        let said = journal.said.get(id).copied().unwrap_or_default();
        let counted: usize = timeline.routes.iter().map(|route| route.attempts.len()).sum();
        // Every third outage in a row may be blamed on the event itself.
        let refused = said.transient + said.permanent + said.unavailable / 3;
        if counted > refused as usize {
            found.push(format!("P6: {id} has {counted} attempts, but the destination refused it only {refused} times"));
        }
    }
    // What an operator gave up is a dead letter too.
    for id in journal.dead.difference(&journal.touched) {
        let said = journal.said.get(id).copied().unwrap_or_default();
        if said.permanent == 0 && said.transient + said.unavailable / 3 < journal.attempts {
            found.push(format!("P6: {id} is dead after only {} refusals", said.transient));
        }
    }
}
