//! What goes wrong in a run: relays die, stand still, lose their connections, are restarted; and how soon others go on (P7).

use std::time::Duration;

use crate::destination::{Answer, answer, lock};
use crate::relay::Process;
use crate::schedule::Run;

/// How long it may take beyond a lease until somebody else delivers what a relay had: ten times this.
const BEYOND_LEASE: Duration = Duration::from_secs(1);

impl Run {
    /// The connections of a relay are reset.
    pub(crate) async fn cut(&mut self) {
        let Some(relay) = self.any_relay() else { return };
        self.costly += 1;
        self.say(format!("cut {}", self.relays[relay].name));
        self.relays[relay].cut().await;
        if self.rng.bool() {
            self.recover("its connections were cut").await;
        }
    }

    /// A relay is killed, and another one starts.
    pub(crate) async fn crash(&mut self) {
        let Some(relay) = self.any_relay() else { return };
        self.costly += 1;
        let process = self.relays.swap_remove(relay);
        self.say(format!("kill {}", process.name));
        for outbound in process.kill() {
            if self.rng.bool() {
                lock(&self.ledger).arrived(&outbound.event.id, false);
            }
        }
        drop(process);
        self.start_relay().await;
        self.recover("a relay was killed").await;
    }

    /// A relay stands still for longer than its lease, then goes on as if nothing had been.
    pub(crate) async fn freeze(&mut self) {
        // Somebody else must be there who goes on.
        if self.relays.iter().filter(|relay| !relay.is_stopping()).count() < 2 {
            self.start_relay().await;
        }
        let Some(relay) = self.any_relay() else { return };
        self.costly += 1;
        let name = self.relays[relay].name.clone();
        self.say(format!("{name} stands still"));
        self.relays[relay].freeze();
        self.recover("a relay stood still").await;
        self.say(format!("{name} goes on"));
        self.relays.iter_mut().for_each(Process::thaw);
    }

    /// Lets leases of the dead run out, while the living renew theirs and the destination takes everything. Something that is due
    /// is handed over by then (P7).
    pub(crate) async fn recover(&mut self, what: &str) {
        self.make_way().await;
        let before = lock(&self.ledger).handed_in_all();
        let quarters = [self.plan.lease / 4; 4];
        for by in quarters.into_iter().chain([BEYOND_LEASE; 10]) {
            self.let_all_go().await;
            self.out_of_the_way().await;
            for relay in 0..self.relays.len() {
                if self.relays[relay].is_frozen() {
                    continue;
                }
                let flights = std::mem::take(&mut *lock(&self.relays[relay].flights));
                for outbound in flights {
                    answer(&self.ledger, outbound, Answer::Yes);
                }
            }
            self.tick(by).await;
            self.settle_down().await;
        }
        self.let_all_go().await;
        let mut ledger = lock(&self.ledger);
        let due = ledger.due();
        if !self.paused && due > 0 && ledger.handed_in_all() == before {
            ledger.violations.push(format!("P7: {what}, {due} events are due, and a lease later none was handed over"));
        }
    }

    /// A relay that stands still inside a transaction keeps others waiting until the server ends it, by the server's own clock. That
    /// has tests of its own; here it goes on until it is out of their way.
    async fn out_of_the_way(&mut self) {
        while self.relays.iter().any(Process::is_blocked) {
            let frozen = |relay: &&mut Process| relay.is_frozen() && !relay.waiting.is_empty();
            let Some(relay) = self.relays.iter_mut().find(frozen) else { return };
            relay.let_go(0);
            self.relays.iter_mut().for_each(Process::may_be_free);
            self.let_all_go().await;
        }
    }

    /// A relay is asked to stop, and another one starts.
    pub(crate) async fn restart(&mut self) {
        let Some(relay) = self.any_relay() else { return };
        if self.relays[relay].is_stopping() {
            return;
        }
        self.say(format!("stop {}", self.relays[relay].name));
        self.relays[relay].ask_to_stop();
        self.start_relay().await;
    }

    /// Relays that were asked to stop, and did.
    pub(crate) async fn collect_stopped(&mut self) {
        let mut ended: Vec<usize> = (0..self.relays.len()).filter(|relay| self.relays[*relay].has_ended()).collect();
        while let Some(relay) = ended.pop() {
            let process = self.relays.swap_remove(relay);
            assert!(process.is_stopping(), "seed {}: {} ended by itself", self.seed, process.name);
            let left = process.kill();
            if !left.is_empty() {
                // Its grace was over.
                self.costly += 1;
            }
            for outbound in left {
                lock(&self.ledger).arrived(&outbound.event.id, false);
            }
            self.say(format!("{} has stopped", process.name));
        }
        if self.relays.is_empty() {
            self.start_relay().await;
        }
    }
}
