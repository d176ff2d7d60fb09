//! Decides after a run whether the promises held.

use std::collections::{BTreeMap, HashMap, HashSet};

use postroom_admin::view::Timeline;

use crate::destination::{Arrival, Replies};

/// Everything the checker knows of one run.
pub(super) struct Journal {
    /// What happened on each route.
    pub(super) routes: Vec<RouteJournal>,
    /// Duplicates the faults of this run may cost, over all routes.
    pub(super) duplicates_max: usize,
    /// Hand-overs by a relay that held no lease.
    pub(super) unleased: u64,
    /// Settles under an old term that were not refused.
    pub(super) unfenced: u64,
    /// Deliveries handed out by the store, over all routes.
    pub(super) handed_out: u64,
    /// Differences that verification found.
    pub(super) differences: Vec<String>,
    /// Whether everything came to an end in time.
    pub(super) finished: bool,
}

/// What happened on one route.
pub(super) struct RouteJournal {
    /// Its name.
    pub(super) name: &'static str,
    /// Committed events it wants, in commit order.
    pub(super) committed: Vec<Committed>,
    /// Ids of events it does not want.
    pub(super) unwanted: HashSet<String>,
    /// Ids of events whose transaction rolled back.
    pub(super) rolled_back: HashSet<String>,
    /// What took effect at the destination, in order.
    pub(super) arrivals: Vec<Arrival>,
    /// What the destination said about each event.
    pub(super) said: HashMap<String, Replies>,
    /// What the store knows of each event in the end.
    pub(super) timelines: HashMap<String, Timeline>,
    /// Ids that were a dead letter, or that an operator gave up, replayed or let others pass.
    pub(super) touched: HashSet<String>,
    /// Dead letters in the end.
    pub(super) dead: HashSet<String>,
    /// Tries in all before an event is given up.
    pub(super) attempts: u32,
    /// Effects of the consumer per event.
    pub(super) effects: HashMap<String, u32>,
}

/// How often one event may be handed out, on average, before somebody goes round in circles.
const HANDED_OUT_MAX: u64 = 60;

/// One committed event.
#[derive(Debug, Clone)]
pub(super) struct Committed {
    pub(super) id: String,
    /// Its key, if order is promised for it.
    pub(super) key: Option<String>,
    /// What happened.
    pub(super) event_type: String,
}

/// What did not hold, in words; empty when all did.
pub(super) fn violations(journal: &Journal) -> Vec<String> {
    let mut found = Vec::new();
    if !journal.finished {
        found.push("P7: not everything came to an end although all faults are over".to_owned());
    }
    for route in &journal.routes {
        let before = found.len();
        if journal.finished {
            no_loss(route, &mut found);
        }
        no_ghosts(route, &mut found);
        order_per_key(route, &mut found);
        effects_once(route, &mut found);
        bad_stay_alone(route, &mut found);
        found.iter_mut().skip(before).for_each(|violation| *violation = format!("route {}: {violation}", route.name));
    }
    let duplicates: usize = journal.routes.iter().map(duplicates).sum();
    if duplicates > journal.duplicates_max {
        found.push(format!("P4: {duplicates} duplicates, the faults allow {}", journal.duplicates_max));
    }
    let events: u64 = journal.routes.iter().map(|route| route.committed.len() as u64).sum();
    if journal.handed_out > 100 + events * HANDED_OUT_MAX {
        found.push(format!("loop: {} deliveries handed out for {events} events", journal.handed_out));
    }
    if journal.unleased > 0 {
        found.push(format!("lease: {} hand-overs by a relay without a lease", journal.unleased));
    }
    if journal.unfenced > 0 {
        found.push(format!("fence: {} settles under an old term were not refused", journal.unfenced));
    }
    found.extend(journal.differences.iter().map(|difference| format!("verify: {difference}")));
    found
}

fn no_loss(journal: &RouteJournal, found: &mut Vec<String>) {
    let arrived: HashSet<&str> = journal.arrivals.iter().map(|a| a.id.as_str()).collect();
    for event in &journal.committed {
        let given_up = journal.dead.contains(&event.id) || journal.touched.contains(&event.id);
        if !arrived.contains(event.id.as_str()) && !given_up {
            found.push(format!("P1: {} never arrived and is no dead letter", event.id));
        }
    }
}

fn no_ghosts(journal: &RouteJournal, found: &mut Vec<String>) {
    for arrival in &journal.arrivals {
        if journal.rolled_back.contains(&arrival.id) {
            found.push(format!("P2: {} arrived although its transaction rolled back", arrival.id));
        }
        if journal.unwanted.contains(&arrival.id) {
            found.push(format!("{} arrived although the route does not want it", arrival.id));
        }
    }
}

fn order_per_key(journal: &RouteJournal, found: &mut Vec<String>) {
    let place: HashMap<&str, (usize, &str)> = journal
        .committed
        .iter()
        .enumerate()
        .filter_map(|(n, event)| event.key.as_deref().map(|key| (event.id.as_str(), (n, key))))
        // What was given up may still arrive late from the wire of a relay that crashed.
        .filter(|(id, _)| !journal.touched.contains(*id) && !journal.dead.contains(*id))
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
fn duplicates(journal: &RouteJournal) -> usize {
    let mut acknowledged: HashMap<&str, bool> = HashMap::new();
    let mut duplicates = 0;
    for arrival in journal.arrivals.iter().filter(|a| !journal.touched.contains(&a.id)) {
        if acknowledged.get(arrival.id.as_str()) == Some(&true) {
            duplicates += 1;
        }
        acknowledged.insert(&arrival.id, arrival.acknowledged);
    }
    duplicates
}

fn effects_once(journal: &RouteJournal, found: &mut Vec<String>) {
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

fn bad_stay_alone(journal: &RouteJournal, found: &mut Vec<String>) {
    for (id, timeline) in &journal.timelines {
        let said = journal.said.get(id).copied().unwrap_or_default();
        let counted: usize =
            timeline.routes.iter().filter(|route| route.route == journal.name).map(|route| route.attempts.len()).sum();
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
