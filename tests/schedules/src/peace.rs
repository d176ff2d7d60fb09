//! Peace: all faults end, everything must come to its end, and the checker compares the store with the ledger.

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::Selection;
use postroom_admin::view::DeliveryRow;
use postroom_core::Event;

use crate::Report;
use crate::destination::{Answer, answer, lock};
use crate::ledger::Written;
use crate::relay::Process;
use crate::schedule::Run;

/// Rounds in which everything must come to its end once all faults are over.
const PEACE_ROUNDS: usize = 600;
/// Rounds without a delivery, although there are events: more than it takes for a lease to end.
const STILL_ROUNDS: usize = 130;
/// Bad events of a crowd, healthy ones beside them, and rounds in which those must arrive.
const CROWD: usize = 24;
const HEALTHY: usize = 6;
const CROWD_ROUNDS: usize = 80;

impl Run {
    /// Ends all faults and waits until everything has come to its end; says whether it did.
    pub(crate) async fn make_peace(&mut self) -> bool {
        self.say("peace");
        while !self.producers.is_empty() {
            self.end(0, Written::Committed).await;
        }
        if self.paused {
            self.pause_or_resume().await;
        }
        if self.plan.crowd {
            self.crowd().await;
        }
        let (mut calm, mut still, mut handed) = (0, 0, 0);
        for round in 0..PEACE_ROUNDS {
            self.round(round, |_| Answer::Yes).await;
            let now = lock(&self.ledger).handed_in_all();
            still = if now == handed { still + 1 } else { 0 };
            handed = now;
            if still > STILL_ROUNDS && !lock(&self.ledger).missing().is_empty() {
                lock(&self.ledger).violations.push(format!("P7: nothing was handed over for {still} rounds"));
                return false;
            }
            if !lock(&self.ledger).missing().is_empty() {
                continue;
            }
            let verified = self.admin().verify().await.expect("it can be counted");
            let open: u64 = verified.iter().map(|row| row.unsettled + row.open).sum();
            let status = self.admin().routes().await.expect("routes can be listed");
            let (due, dead): (u64, u64) = status
                .iter()
                .fold((0, 0), |sum, route| (sum.0 + route.status.due.unwrap_or(0), sum.1 + route.status.dead));
            calm = if open == dead && due == 0 { calm + 1 } else { 0 };
            if calm > 2 {
                return true;
            }
        }
        false
    }

    /// Lets everything happen that can, answers what is on its way, and moves the clock on.
    pub(crate) async fn round(&mut self, round: usize, said: impl Fn(&str) -> Answer) {
        self.let_all_go().await;
        for relay in 0..self.relays.len() {
            let flights = std::mem::take(&mut *lock(&self.relays[relay].flights));
            for outbound in flights {
                let said = said(&outbound.event.event_type);
                answer(&self.ledger, outbound, said);
            }
        }
        let step = if round % 20 == 19 { self.plan.lease / 4 } else { Duration::from_millis(60) };
        self.tick(step).await;
        self.settle_down().await;
        self.collect_stopped().await;
    }

    /// Many bad events of many keys, whose retries are due all the time: the others are delivered all the same.
    async fn crowd(&mut self) {
        self.say("a crowd of bad events");
        for (event_type, count) in [("poison", CROWD), ("order", HEALTHY)] {
            let site = Arc::clone(&self.site);
            let mut tx = self.through(async move { site.begin().await }).await;
            let mut ids = Vec::new();
            for n in 0..count {
                let (id, key) = (format!("{event_type}-{n}"), format!("{event_type}-{n}"));
                lock(&self.ledger).append(&id, Some(&key), false);
                tx.append(&Event::new(event_type).id(id.as_str()).key(key.as_str())).await;
                ids.push(id);
            }
            lock(&self.ledger).ended(&ids, Written::Committed);
            tx.commit().await;
            // The bad ones are all waiting for another try before the healthy ones come.
            for round in 0..if event_type == "poison" { 2 * CROWD_ROUNDS } else { CROWD_ROUNDS } {
                self.round(round, |event_type| if event_type == "poison" { Answer::Transient } else { Answer::Yes })
                    .await;
                let ledger = lock(&self.ledger);
                if ids.iter().all(|id| ledger.entries.get(id).is_some_and(|entry| entry.arrived + entry.transient > 0))
                {
                    break;
                }
            }
        }
        let mut ledger = lock(&self.ledger);
        let waiting =
            (0..HEALTHY).filter(|n| ledger.entries.get(&format!("order-{n}")).is_some_and(|entry| entry.arrived == 0));
        let waiting = waiting.count();
        if waiting > 0 {
            let what =
                format!("P6: {waiting} of {HEALTHY} events wait for {CROWD} bad ones after {CROWD_ROUNDS} rounds");
            ledger.violations.push(what);
        }
    }

    /// Compares the ledger with the dead letters, once everything is over.
    fn compare(&self, dead: &[DeliveryRow], finished: bool, violations: &mut Vec<String>) {
        let ledger = lock(&self.ledger);
        for entry in ledger.committed().filter(|entry| entry.arrived == 0 && !entry.touched) {
            if !dead.iter().any(|row| row.id == entry.id) {
                violations.push(format!("P1: {} never arrived and is no dead letter", entry.id));
            }
        }
        for row in dead {
            let refused = ledger.entries.get(&row.id).is_some_and(|entry| entry.is_given_up(self.plan.attempts));
            if !refused {
                violations.push(format!("P6: {} is dead and was not refused so often", row.id));
            }
        }
        let allowed = self.costly * u32::try_from(self.plan.in_flight_max).unwrap_or(u32::MAX);
        if ledger.copies() > allowed {
            violations.push(format!("P4: {} copies, the faults allow {allowed}", ledger.copies()));
        }
        if !finished {
            violations.push("P7: not everything came to its end although all faults are over".to_owned());
        }
    }

    /// What came of the run.
    pub(crate) async fn report(mut self, finished: bool) -> Report {
        let admin = self.admin();
        let mut violations = std::mem::take(&mut lock(&self.ledger).violations);
        if violations.is_empty() {
            let dead = admin.dead(&Selection::default(), 0, 10_000).await.expect("dead letters can be listed");
            self.compare(&dead, finished, &mut violations);
            let verified = admin.verify().await.expect("it can be counted");
            let differences = verified.into_iter().flat_map(|row| row.differences);
            violations.extend(differences.map(|one| format!("P8: verify: {one}")));
        }
        if !violations.is_empty() {
            let stand: Vec<String> = self.relays.iter().map(Process::stands).collect();
            self.trace.extend(stand);
            for route in admin.routes().await.expect("routes can be listed") {
                self.say(format!("in the end: {:?} {:?}", route.status, route.lanes));
            }
        }
        let ledger = lock(&self.ledger);
        let (committed, handed) =
            (ledger.committed().count(), ledger.entries.values().map(|entry| entry.handed as usize).sum());
        drop(ledger);
        let (seed, trace) = (self.seed, std::mem::take(&mut self.trace));
        Report { seed, violations, committed, handed, steps: trace.len(), plan: format!("{:?}", self.plan), trace }
    }
}
