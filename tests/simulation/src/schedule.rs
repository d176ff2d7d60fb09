//! One run: steps by the seed, then peace, then the checker.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use postroom_core::view::DeliveryRow;
use postroom_core::{Actor, Desk, Event, Retention, RouteDefinition, Selection, Start, Store};
use postroom_testing::ManualClock;

use crate::Report;
use crate::destination::{Answer, answer, lock};
use crate::ledger::{Ledger, Written};
use crate::plan::Plan;
use crate::relay::Process;
use crate::sites::{Site, Transaction};

/// How long a statement may take that does not wait for a lock.
const BLOCKED_AFTER: Duration = Duration::from_millis(30);
/// So often nothing is heard before whatever the server does counts as blocked.
const WAITED_MAX: usize = 100;
/// How long a statement waits at a gate, by the real clock: the server ends transactions that stand idle.
const WAITS_MAX: Duration = Duration::from_secs(2);
/// Turns of the runtime without a sign after which nothing more comes by itself.
const TURNS: usize = 40;
/// Rounds in which everything must come to its end once all faults are over.
const PEACE_ROUNDS: usize = 600;

/// Rounds without a delivery, although there are events: more than it takes for a lease to end.
const STILL_ROUNDS: usize = 130;
/// Bad events of a crowd, healthy ones beside them, and rounds in which those must arrive.
const CROWD: usize = 24;
const HEALTHY: usize = 6;
const CROWD_ROUNDS: usize = 80;

const ROUTE: &str = "mailer";

pub(crate) struct Run {
    rng: fastrand::Rng,
    seed: u64,
    plan: Plan,
    clock: ManualClock,
    site: Arc<dyn Site>,
    store: Arc<dyn Store>,
    route: RouteDefinition,
    ledger: Arc<Mutex<Ledger>>,
    relays: Vec<Process>,
    lives: u64,
    producers: Vec<Producer>,
    appended: usize,
    paused: bool,
    /// Faults that may cost copies.
    costly: u32,
    trace: Vec<String>,
}

/// A producer's open transaction.
struct Producer {
    tx: Box<dyn Transaction>,
    keys: Vec<String>,
    ids: Vec<String>,
    /// What was appended since the savepoint, if there is one.
    since: Option<usize>,
    prepared: bool,
}

impl Run {
    pub(crate) fn new(seed: u64, mut rng: fastrand::Rng, plan: Plan, clock: ManualClock, site: Arc<dyn Site>) -> Self {
        let route =
            RouteDefinition { start: Start::Beginning, on_failure: plan.on_failure, ..RouteDefinition::new(ROUTE) };
        let ledger = Ledger { attempts: plan.attempts, ordered: true, ..Ledger::default() };
        let store = site.store();
        rng.u64(..);
        Self {
            rng,
            seed,
            plan,
            clock,
            site,
            store,
            route,
            ledger: Arc::new(Mutex::new(ledger)),
            relays: Vec::new(),
            lives: 0,
            producers: Vec::new(),
            appended: 0,
            paused: false,
            costly: 0,
            trace: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) -> Report {
        self.desk().register(std::slice::from_ref(&self.route)).await.expect("a new route");
        for _ in 0..self.plan.relays {
            self.start_relay().await;
        }
        for _ in 0..self.plan.steps {
            self.step().await;
            if !lock(&self.ledger).violations.is_empty() {
                break;
            }
        }
        let finished = if lock(&self.ledger).violations.is_empty() { self.make_peace().await } else { true };
        self.report(finished).await
    }

    fn desk(&self) -> Arc<dyn Desk> {
        self.store.desk()
    }

    fn say(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }

    async fn start_relay(&mut self) {
        self.lives += 1;
        let name = format!("relay-{}", self.lives);
        self.say(format!("start {name}"));
        let door = self.site.relay().await;
        let seed = self.rng.u64(..);
        let process = Process::start(name, seed, &self.plan, door, &self.route, &self.ledger);
        self.relays.push(process);
        // How it joins is seldom what a schedule is about.
        if self.rng.u8(0..4) > 0 {
            self.let_all_go().await;
        } else {
            self.settle_down().await;
        }
    }

    /// Waits until nothing more happens by itself: everybody waits at a gate, for a clock, an answer or a lock.
    async fn settle_down(&mut self) {
        let (mut idle, mut waited) = (0, 0);
        loop {
            let mut any = false;
            for relay in &mut self.relays {
                any |= relay.take_signs();
            }
            if any {
                idle = 0;
                continue;
            }
            if self.relays.iter().any(Process::is_busy) {
                let next = select_all(self.relays.iter_mut().map(|relay| Box::pin(relay.next_sign())));
                let silent = tokio::time::timeout(BLOCKED_AFTER, next).await.is_err();
                waited += usize::from(silent);
                if silent && (waited > WAITED_MAX || self.site.waits_for_lock().await) {
                    // It waits for a lock that somebody holds who waits at a gate.
                    self.relays.iter_mut().for_each(Process::blocked);
                    return;
                }
                idle = 0;
                continue;
            }
            tokio::task::yield_now().await;
            idle += 1;
            if idle > TURNS {
                return;
            }
        }
    }

    /// Waits for something of our own. While it does not come, it may wait for a lock of somebody who waits at a gate: those go
    /// on, the oldest first.
    async fn through<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(BLOCKED_AFTER, &mut work).await {
                return done;
            }
            if let Some((_, relay, which)) = self.oldest() {
                let text = self.relays[relay].let_go(which);
                let name = self.relays[relay].name.clone();
                self.say(format!("{name}, which is in the way: {}", words(&text)));
            }
            self.settle_down().await;
        }
    }

    /// One step of the schedule.
    async fn step(&mut self) {
        let w = self.plan.weights;
        if self.oldest().is_some_and(|(since, ..)| since.elapsed() > WAITS_MAX) {
            self.statement();
            self.settle_down().await;
            return;
        }
        let waiting = self.relays.iter().any(|relay| !relay.waiting.is_empty());
        let flying = self.relays.iter().any(|relay| !lock(&relay.flights).is_empty());
        let kinds = [
            if waiting { w.statement } else { 0 },
            if flying { w.answer } else { 0 },
            w.produce,
            w.tick,
            w.segments,
            w.pause,
            w.cut,
            w.crash,
            w.restart,
            w.numbers,
            w.prune,
            w.look,
        ];
        let mut roll = self.rng.u32(0..kinds.iter().sum());
        let kind = kinds.iter().position(|weight| {
            let hit = roll < *weight;
            roll = roll.saturating_sub(*weight);
            hit
        });
        match kind.unwrap_or(3) {
            0 => self.statement(),
            1 => self.answer(),
            2 => self.produce().await,
            3 => {
                let millis = *[1, 3, 20, 60, 110].get(self.rng.usize(0..5)).unwrap_or(&1);
                self.tick(Duration::from_millis(millis));
            }
            4 => {
                let segments = self.rng.u64(1..12);
                self.tick(Duration::from_secs(segments));
            }
            5 => self.pause_or_resume().await,
            6 => self.cut().await,
            7 => self.crash().await,
            8 => self.restart().await,
            9 => {
                self.say("skip 60000 numbers");
                let site = Arc::clone(&self.site);
                self.through(async move { site.skip_numbers(60_000).await }).await;
            }
            10 => self.prune().await,
            _ => self.look().await,
        }
        self.settle_down().await;
        self.bury().await;
    }

    /// Lets one statement go on.
    fn statement(&mut self) {
        let doors: Vec<(usize, usize)> = self
            .relays
            .iter()
            .enumerate()
            .flat_map(|(relay, process)| (0..process.waiting.len()).map(move |which| (relay, which)))
            .collect();
        if doors.is_empty() {
            return;
        }
        let (relay, which) = match self.oldest() {
            Some((since, relay, which)) if since.elapsed() > WAITS_MAX => (relay, which),
            _ => doors[self.rng.usize(0..doors.len())],
        };
        let text = self.relays[relay].let_go(which);
        let name = self.relays[relay].name.clone();
        self.say(format!("{name}: {}", words(&text)));
    }

    /// The statement that waits longest.
    fn oldest(&self) -> Option<(Instant, usize, usize)> {
        let waiting = self.relays.iter().enumerate().flat_map(|(relay, process)| {
            process.waiting.iter().enumerate().map(move |(which, (since, _))| (*since, relay, which))
        });
        waiting.min()
    }

    /// One delivery gets its answer.
    fn answer(&mut self) {
        let flying: Vec<usize> =
            (0..self.relays.len()).filter(|relay| !lock(&self.relays[*relay].flights).is_empty()).collect();
        if flying.is_empty() {
            return;
        }
        let relay = flying[self.rng.usize(0..flying.len())];
        let outbound = {
            let mut flights = lock(&self.relays[relay].flights);
            let which = self.rng.usize(0..flights.len());
            flights.remove(which)
        };
        let said = self.said(&outbound.event.event_type);
        let (name, id) = (self.relays[relay].name.clone(), outbound.event.id.clone());
        self.say(format!("{name}: {id} → {said:?}"));
        answer(&self.ledger, outbound, said);
    }

    fn said(&mut self, event_type: &str) -> Answer {
        if event_type == "poison" {
            return Answer::Transient;
        }
        let Plan { transient, permanent, unavailable, lost, .. } = self.plan;
        let roll = self.rng.u32(0..10_000);
        match roll {
            roll if roll < transient => Answer::Transient,
            roll if roll < transient + permanent => Answer::Permanent,
            roll if roll < transient + permanent + unavailable => Answer::Unavailable,
            roll if roll < transient + permanent + unavailable + lost => Answer::YesButLost,
            _ => Answer::Yes,
        }
    }

    /// Time goes on, for all.
    fn tick(&mut self, by: Duration) {
        self.say(format!("{} ms later", by.as_millis()));
        self.clock.advance(by);
        for relay in &self.relays {
            relay.clock.advance(by);
        }
    }

    async fn produce(&mut self) {
        if self.appended >= self.plan.events && self.producers.is_empty() {
            return;
        }
        if self.producers.is_empty() || (self.producers.len() < 4 && self.rng.u8(0..3) == 0) {
            if self.appended < self.plan.events {
                let site = Arc::clone(&self.site);
                let tx = self.through(async move { site.begin().await }).await;
                self.producers.push(Producer { tx, keys: Vec::new(), ids: Vec::new(), since: None, prepared: false });
                self.append(self.producers.len() - 1).await;
            }
            return;
        }
        let which = self.rng.usize(0..self.producers.len());
        let prepared = self.producers[which].prepared;
        match self.rng.u8(0..20) {
            0..=5 if !prepared && self.appended < self.plan.events => self.append(which).await,
            6 if !prepared && self.producers[which].since.is_none() => {
                self.say(format!("producer {which}: savepoint"));
                let mut producer = self.producers.swap_remove(which);
                self.through(producer.tx.savepoint()).await;
                producer.since = Some(producer.ids.len());
                self.producers.push(producer);
            }
            7 if !prepared && self.producers[which].since.is_some() => {
                self.say(format!("producer {which}: rollback to savepoint"));
                let mut producer = self.producers.swap_remove(which);
                self.through(producer.tx.rollback_to_savepoint()).await;
                let undone = producer.ids.split_off(producer.since.unwrap_or(0));
                lock(&self.ledger).ended(&undone, Written::Undone);
                self.producers.push(producer);
            }
            8 if !prepared => {
                self.say(format!("producer {which}: prepare"));
                let mut producer = self.producers.swap_remove(which);
                producer.tx = self.through(producer.tx.prepare()).await;
                producer.prepared = true;
                self.producers.push(producer);
            }
            9 | 10 => self.end(which, Written::Undone).await,
            _ => self.end(which, Written::Committed).await,
        }
    }

    async fn append(&mut self, which: usize) {
        let key = format!("k{}", self.rng.u64(0..self.plan.keys));
        // Writers of a key come one after the other: that is what order is promised for.
        let busy = self.producers.iter().enumerate().any(|(n, producer)| n != which && producer.keys.contains(&key));
        let key = if self.rng.u8(0..12) == 0 || busy { None } else { Some(key) };
        self.appended += 1;
        let id = format!("e{:03}", self.appended);
        let event_type = if self.rng.u8(0..25) == 0 { "poison" } else { "order" };
        let delayed = self.rng.u8(0..25) == 0;
        let mut event = Event::new(event_type).id(id.as_str());
        if let Some(key) = &key {
            event = event.key(key.as_str());
        }
        if delayed {
            let wait = Duration::from_millis(self.rng.u64(1..2000));
            let at = postroom_core::Clock::now(&self.clock).checked_add(wait).expect("a time of this century");
            event = event.available_at(at);
        }
        lock(&self.ledger).append(&id, key.as_deref(), delayed);
        let mut producer = self.producers.swap_remove(which);
        self.through(producer.tx.append(&event)).await;
        producer.ids.push(id.clone());
        producer.keys.extend(key.clone());
        self.producers.push(producer);
        self.say(format!(
            "producer {which}: {id} of {}{}",
            key.as_deref().unwrap_or("no key"),
            if delayed { ", later" } else { "" }
        ));
    }

    async fn end(&mut self, which: usize, how: Written) {
        let Producer { tx, ids, .. } = self.producers.swap_remove(which);
        self.say(format!("producer {which}: {how:?} {ids:?}"));
        // Before the store can show it to anybody, and after it could have for the last time.
        if how == Written::Committed {
            lock(&self.ledger).ended(&ids, how);
            self.through(tx.commit()).await;
        } else {
            self.through(tx.rollback()).await;
            lock(&self.ledger).ended(&ids, how);
        }
    }

    async fn pause_or_resume(&mut self) {
        self.paused = !self.paused;
        let paused = self.paused;
        self.say(if paused { "pause" } else { "resume" });
        let desk = self.desk();
        let done = self.through(async move {
            if paused { desk.pause(ROUTE, &operator()).await } else { desk.resume(ROUTE, &operator()).await }
        });
        let done = done.await;
        done.expect("the route is registered");
    }

    async fn cut(&mut self) {
        let Some(relay) = self.any_relay() else { return };
        self.costly += 1;
        self.say(format!("cut {}", self.relays[relay].name));
        self.relays[relay].cut().await;
    }

    fn any_relay(&mut self) -> Option<usize> {
        (!self.relays.is_empty()).then(|| self.rng.usize(0..self.relays.len()))
    }

    async fn crash(&mut self) {
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
        // Long enough that whoever is left may take over.
        self.outlive_lease().await;
    }

    /// Lets leases of the dead run out, while the living renew theirs.
    async fn outlive_lease(&mut self) {
        for _ in 0..5 {
            self.let_all_go().await;
            self.tick(self.plan.lease / 4);
            self.settle_down().await;
        }
        self.let_all_go().await;
    }

    async fn let_all_go(&mut self) {
        for _ in 0..200 {
            self.settle_down().await;
            let mut any = false;
            for relay in &mut self.relays {
                while !relay.waiting.is_empty() {
                    relay.let_go(0);
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    async fn restart(&mut self) {
        let Some(relay) = self.any_relay() else { return };
        if self.relays[relay].is_stopping() {
            return;
        }
        self.say(format!("stop {}", self.relays[relay].name));
        self.relays[relay].ask_to_stop();
        self.start_relay().await;
    }

    /// Relays that were asked to stop, and did.
    async fn bury(&mut self) {
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

    async fn prune(&mut self) {
        let keep = Some(Duration::from_millis(200));
        let (desk, short) = (self.desk(), Retention { delivered: keep, attempts: keep, inbox: keep });
        let pruned = self.through(async move { desk.prune(&short, false).await }).await;
        self.say(format!("prune {pruned:?}"));
    }

    /// What operators see agrees with the ledger, while everything goes on.
    async fn look(&mut self) {
        self.say("look");
        let desk = self.desk();
        let Ok(rows) = self.through(async move { desk.audit().await }).await else { return };
        let differences = rows.into_iter().flat_map(|row| row.differences).map(|one| format!("P8: verify: {one}"));
        let differences: Vec<String> = differences.collect();
        // What nobody has handed over, and nothing stands in front of, is due.
        let due = lock(&self.ledger).due() as u64;
        let desk = self.desk();
        let Ok(routes) = self.through(async move { desk.routes().await }).await else { return };
        let mut ledger = lock(&self.ledger);
        ledger.violations.extend(differences);
        for status in routes.iter().map(|route| &route.status) {
            let (refused, acknowledged) = (ledger.refused(), ledger.arrivals());
            if status.due < due {
                ledger.violations.push(format!("P8: status says {} due, at least {due} are", status.due));
            }
            if status.delivered > acknowledged || status.dead > refused {
                let what = format!(
                    "P8: status says {} delivered and {} dead, it was {acknowledged} and {refused}",
                    status.delivered, status.dead
                );
                ledger.violations.push(what);
            }
        }
    }

    /// Ends all faults and waits until everything has come to its end; says whether it did.
    async fn make_peace(&mut self) -> bool {
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
            let audit = self.desk().audit().await.expect("it can be counted");
            let open: u64 = audit.iter().map(|row| row.unsettled + row.open).sum();
            let status = self.desk().routes().await.expect("routes can be listed");
            let (due, dead): (u64, u64) =
                status.iter().fold((0, 0), |sum, route| (sum.0 + route.status.due, sum.1 + route.status.dead));
            calm = if open == dead && due == 0 { calm + 1 } else { 0 };
            if calm > 2 {
                return true;
            }
        }
        false
    }

    /// Lets everything happen that can, answers what is on its way, and moves the clock on.
    async fn round(&mut self, round: usize, said: impl Fn(&str) -> Answer) {
        self.let_all_go().await;
        for relay in 0..self.relays.len() {
            let flights = std::mem::take(&mut *lock(&self.relays[relay].flights));
            for outbound in flights {
                let said = said(&outbound.event.event_type);
                answer(&self.ledger, outbound, said);
            }
        }
        let step = if round % 20 == 19 { self.plan.lease / 4 } else { Duration::from_millis(60) };
        self.tick(step);
        self.settle_down().await;
        self.bury().await;
    }

    /// Many bad events of many keys, whose retries are due all the time: the others are delivered all the same.
    async fn crowd(&mut self) {
        self.say("a crowd of bad events");
        for (event_type, count) in [("poison", CROWD), ("order", HEALTHY)] {
            let mut tx = self.site.begin().await;
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

    async fn report(mut self, finished: bool) -> Report {
        let desk = self.desk();
        let mut violations = std::mem::take(&mut lock(&self.ledger).violations);
        if violations.is_empty() {
            let dead = desk.dead(&Selection::default(), 0, 10_000).await.expect("dead letters can be listed");
            self.compare(&dead, finished, &mut violations);
            let audit = desk.audit().await.expect("it can be counted");
            let differences = audit.into_iter().flat_map(|row| row.differences);
            violations.extend(differences.map(|one| format!("P8: verify: {one}")));
        }
        if !violations.is_empty() {
            for route in desk.routes().await.expect("routes can be listed") {
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

fn operator() -> Actor {
    Actor { name: "operator".to_owned(), reason: None }
}

/// A statement in few words.
fn words(text: &str) -> String {
    let line = text.lines().find(|line| !line.starts_with("--")).unwrap_or(text);
    let mut short: String = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ");
    if short.is_empty() {
        line.clone_into(&mut short);
    }
    short.chars().take(110).collect()
}
