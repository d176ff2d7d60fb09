//! Scenes: interleavings that a schedule meets seldom, played on purpose. A control plays the one in which its old fault shows.

use std::time::Duration;

use crate::destination::{Answer, answer, lock};
use crate::ledger::Written;
use crate::relay::Process;
use crate::schedule::{Run, words};
use crate::sites::PARTITIONS;

/// Part of the statement of a take that asks which keys are blocked.
const ASKS_WHAT_IS_BLOCKED: &str = "as u(key, seq)";
/// How a transaction of a settle begins.
const BEGINS: &str = "begin isolation level";
/// Rounds of small ticks after which what must come has come.
const ROUNDS: usize = 40;
const TICK: Duration = Duration::from_millis(60);
const SEGMENT: Duration = Duration::from_secs(1);
/// Events that fail, and the takes in which a fresh one beside them comes at the latest.
const BAD: usize = 40;
const TAKES: usize = 6;
/// When they are tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(10);
/// How far a clock is set back: further than a lease.
const SET_BACK: Duration = Duration::from_hours(1);
/// How often relays are restarted while rows are claimed: more often than rows may be claimed in vain.
const RESTARTS: usize = 5;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// A take reads a late event of a key and a later one, and the event that blocks both is settled between its two questions.
    BlockerLeaves,
    /// A transaction begins after a read and is still open at the next one, which sees a later number.
    Newcomer,
    /// Nobody reads for a whole turn of the partitions.
    TurnOfThePartitions,
    /// The same, and then another relay joins.
    TurnAndJoin,
    /// Many events are due for another try when a fresh one comes.
    RetriesAreDue,
    /// Relays are restarted again and again while they have claimed rows that they have not tried.
    Restarts,
    /// The holder dies, and the clock is set back.
    SetBack,
    /// The holder stands still for longer than its lease, then settles what it had; and the next holder dies.
    StandsStill,
}

impl Run {
    pub(crate) async fn play(&mut self, scene: Scene) {
        self.say(format!("{scene:?}"));
        match scene {
            Scene::BlockerLeaves => self.blocker_leaves().await,
            Scene::Newcomer => self.newcomer().await,
            Scene::TurnOfThePartitions => self.turn_of_the_partitions(1).await,
            Scene::TurnAndJoin => {
                self.turn_of_the_partitions(2).await;
                // The first one finds out before it reads again.
                self.relays[0].freeze();
                self.start_relay().await;
                self.let_all_go().await;
                self.relays[0].thaw();
            }
            Scene::RetriesAreDue => self.retries_are_due().await,
            Scene::Restarts => self.restarts().await,
            Scene::SetBack => self.set_back().await,
            Scene::StandsStill => self.stands_still().await,
        }
    }

    async fn blocker_leaves(&mut self) {
        let first = self.put("k0").await;
        self.until_on_its_way(&first).await;
        self.answer_to(&first, Answer::Transient);
        // Now it stands in the table, and is tried again.
        self.until_on_its_way(&first).await;
        self.begin().await;
        let late = self.append_of(0, Some("k0")).await;
        let other = self.put("k1").await;
        self.until_on_its_way(&other).await;
        self.answer_to(&other, Answer::Yes);
        self.let_all_go().await;
        // Takes go on while a settle is written.
        self.answer_to(&first, Answer::Yes);
        self.until_held(BEGINS, BEGINS).await;
        self.end(0, Written::Committed).await;
        let last = self.put("k0").await;
        // The first question is about the late event; the second, about the last one, waits while the settle commits.
        self.until_held(ASKS_WHAT_IS_BLOCKED, BEGINS).await;
        self.pass(ASKS_WHAT_IS_BLOCKED);
        self.until_held(ASKS_WHAT_IS_BLOCKED, BEGINS).await;
        self.all_but(ASKS_WHAT_IS_BLOCKED).await;
        self.say(format!("{late} is late, {last} follows, {first} is settled"));
        self.let_all_go().await;
    }

    async fn newcomer(&mut self) {
        self.put("k0").await;
        self.deliver_all().await;
        self.begin().await;
        self.append_of(0, Some("k1")).await;
        self.put("k2").await;
        self.deliver_all().await;
        self.end(0, Written::Committed).await;
    }

    /// Reads for two turns of the partitions, so that old partitions are left out, then not for so many.
    async fn turn_of_the_partitions(&mut self, turns: u16) {
        for _ in 0..2 * PARTITIONS {
            self.some_of_each_lane().await;
            // Each look may leave one more partition out.
            for _ in 0..4 {
                self.deliver_all().await;
            }
            self.tick(SEGMENT).await;
        }
        for _ in 0..turns * PARTITIONS {
            self.some_of_each_lane().await;
            self.tick(SEGMENT).await;
        }
    }

    async fn some_of_each_lane(&mut self) {
        for key in 0..6 {
            self.put(&format!("k{key}")).await;
        }
    }

    /// A take brings fresh events beside those that have failed, however many those are (P6).
    async fn retries_are_due(&mut self) {
        self.begin().await;
        for n in 0..BAD {
            self.append_of(0, Some(&format!("bad-{n}"))).await;
        }
        self.end(0, Written::Committed).await;
        let mut failed = 0;
        while failed < 2 * ROUNDS && lock(&self.ledger).entries.values().any(|entry| entry.transient == 0) {
            self.round(failed, |_| Answer::Transient).await;
            failed += 1;
        }
        self.let_all_go().await;
        let fresh = self.put("k0").await;
        // All of them are due now, and nobody has looked.
        self.tick(2 * RETRY).await;
        let mut takes = 0;
        while lock(&self.ledger).entries.get(&fresh).is_some_and(|entry| entry.handed == 0) {
            self.answer_all(Answer::Transient);
            match self.one_but(None).await {
                Some(text) => takes += usize::from(text.contains(self.site.take_begins())),
                None => self.tick(Duration::from_millis(1)).await,
            }
            if takes > TAKES {
                let what =
                    format!("P6: {takes} takes have not brought {fresh}, which waits for {BAD} that have failed");
                lock(&self.ledger).violations.push(what);
                return;
            }
        }
    }

    async fn restarts(&mut self) {
        for key in 0..30 {
            self.put(&format!("k{key}")).await;
        }
        for _ in 0..RESTARTS {
            for _ in 0..3 {
                self.let_all_go().await;
                self.tick(TICK).await;
            }
            self.relays.iter_mut().for_each(Process::ask_to_stop);
            while !self.relays.iter().all(Process::has_ended) {
                self.let_all_go().await;
                self.answer_all(Answer::Yes);
                self.tick(TICK).await;
                self.settle_down().await;
            }
            self.collect_stopped().await;
        }
    }

    async fn set_back(&mut self) {
        let first = self.put("k0").await;
        self.until_on_its_way(&first).await;
        self.answer_to(&first, Answer::Yes);
        self.let_all_go().await;
        let holder = self.relays.swap_remove(0);
        self.costly += 1;
        holder.kill();
        drop(holder);
        self.site.set_back(SET_BACK).await;
        self.put("k1").await;
        self.start_relay().await;
        self.recover("a relay was killed and the clock set back").await;
    }

    async fn stands_still(&mut self) {
        let first = self.put("k0").await;
        self.until_on_its_way(&first).await;
        self.start_relay().await;
        self.costly += 1;
        self.relays[0].freeze();
        for _ in 0..8 {
            self.put("k1").await;
        }
        self.recover("a relay stood still").await;
        self.relays[0].thaw();
        self.answer_to(&first, Answer::Yes);
        self.let_all_go().await;
        // Whoever comes next goes by what is written.
        self.costly += 1;
        let holder = self.relays.swap_remove(1);
        holder.kill();
        drop(holder);
        self.put("k2").await;
    }

    /// Commits an event of this key.
    async fn put(&mut self, key: &str) -> String {
        self.begin().await;
        let which = self.producers.len() - 1;
        let id = self.append_of(which, Some(key)).await;
        self.end(self.producers.len() - 1, Written::Committed).await;
        id
    }

    /// Lets everything happen until this event is on its way to the destination.
    async fn until_on_its_way(&mut self, id: &str) {
        for _ in 0..ROUNDS {
            self.let_all_go().await;
            if self.relays.iter().any(|relay| lock(&relay.flights).iter().any(|flight| flight.event.id == id)) {
                return;
            }
            self.tick(TICK).await;
            self.settle_down().await;
        }
        self.say(format!("{id} does not come"));
    }

    fn answer_to(&mut self, id: &str, said: Answer) {
        for relay in &self.relays {
            let mut flights = lock(&relay.flights);
            let Some(which) = flights.iter().position(|flight| flight.event.id == id) else { continue };
            let outbound = flights.remove(which);
            drop(flights);
            answer(&self.ledger, outbound, said);
            break;
        }
        self.say(format!("{id} → {said:?}"));
    }

    fn answer_all(&self, said: Answer) {
        for relay in &self.relays {
            let flights = std::mem::take(&mut *lock(&relay.flights));
            for outbound in flights {
                answer(&self.ledger, outbound, said);
            }
        }
    }

    /// Lets everything happen and delivers what comes.
    async fn deliver_all(&mut self) {
        for round in 0..3 {
            self.round(round, |_| Answer::Yes).await;
        }
    }

    /// Lets statements go on, one after the other, until one of these waits. Others have to wait all the time.
    async fn until_held(&mut self, part: &str, but: &str) {
        for _ in 0..10 * ROUNDS {
            self.settle_down().await;
            if self.relays.iter().any(|relay| relay.at_the_gate(part).is_some()) {
                return;
            }
            if self.one_but(Some(but)).await.is_none() {
                self.tick(TICK).await;
            }
        }
        self.say(format!("nobody asks {part}"));
    }

    /// Lets such a statement go on.
    fn pass(&mut self, part: &str) {
        for relay in &mut self.relays {
            if let Some(which) = relay.at_the_gate(part) {
                relay.let_go(which);
                return;
            }
        }
    }

    /// Lets one statement go on that is not one of those; says which.
    async fn one_but(&mut self, but: Option<&str>) -> Option<String> {
        self.settle_down().await;
        let may_go = |text: &str| but.is_none_or(|but| !text.contains(but));
        for relay in &mut self.relays {
            if let Some(which) = relay.waiting.iter().position(|(_, waiting)| may_go(&waiting.text)) {
                let text = relay.let_go(which);
                let line = format!("{}: {}", relay.name, words(&text));
                self.trace.push(line);
                return Some(text);
            }
        }
        None
    }

    /// Lets everything happen but this.
    async fn all_but(&mut self, part: &str) {
        for round in 0..ROUNDS {
            self.settle_down().await;
            let mut any = false;
            for relay in &mut self.relays {
                while let Some(which) = relay.waiting.iter().position(|(_, waiting)| !waiting.text.contains(part)) {
                    relay.let_go(which);
                    any = true;
                }
            }
            if !any && round > 4 {
                return;
            }
            if !any {
                self.tick(TICK).await;
            }
        }
    }
}
