//! One run: steps by the seed, then peace, then the checker.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use postroom_admin::{Admin, ManagedStore};
use postroom_core::{RouteSpec, StartFrom};
use postroom_testing::ManualClock;

use crate::Report;
use crate::destination::{Answer, answer, lock};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::producers::Producer;
use crate::relay::Process;
use crate::sites::Site;

/// How long a statement may take that does not wait for a lock.
const BLOCKED_AFTER: Duration = Duration::from_millis(30);
/// So often nothing is heard before whatever the server does counts as blocked.
const WAITED_MAX: usize = 100;
/// How long a statement waits at a gate, by the real clock: the server ends transactions that stand idle.
const WAITS_MAX: Duration = Duration::from_secs(2);
/// Turns of the runtime without a sign after which nothing more comes by itself.
const TURNS: usize = 40;
pub(crate) const ROUTE: &str = "mailer";

pub(crate) struct Run {
    pub(crate) rng: fastrand::Rng,
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) clock: ManualClock,
    pub(crate) site: Arc<dyn Site>,
    pub(crate) store: Arc<dyn ManagedStore>,
    pub(crate) route: RouteSpec,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) relays: Vec<Process>,
    pub(crate) lives: u64,
    pub(crate) producers: Vec<Producer>,
    pub(crate) appended: usize,
    pub(crate) paused: bool,
    /// Faults that may cost copies.
    pub(crate) costly: u32,
    pub(crate) trace: Vec<String>,
}

impl Run {
    pub(crate) fn new(seed: u64, mut rng: fastrand::Rng, plan: Plan, clock: ManualClock, site: Arc<dyn Site>) -> Self {
        let route = RouteSpec { start: StartFrom::Beginning, on_failure: plan.on_failure, ..RouteSpec::new(ROUTE) };
        let ledger = Ledger { attempts: plan.attempts, ordered: site.traits().ordered, ..Ledger::default() };
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
        self.admin().register(std::slice::from_ref(&self.route)).await.expect("a new route");
        for _ in 0..self.plan.relays {
            self.start_relay().await;
        }
        if let Some(scene) = self.plan.scene {
            self.play(scene).await;
        }
        for _ in 0..self.plan.steps {
            if !lock(&self.ledger).violations.is_empty() {
                break;
            }
            self.step().await;
        }
        let finished = if lock(&self.ledger).violations.is_empty() { self.make_peace().await } else { true };
        self.report(finished).await
    }

    pub(crate) fn admin(&self) -> Arc<dyn Admin> {
        self.store.admin()
    }

    pub(crate) fn say(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }

    pub(crate) async fn start_relay(&mut self) {
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
    pub(crate) async fn settle_down(&mut self) {
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
    pub(crate) async fn through<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(BLOCKED_AFTER, &mut work).await {
                return done;
            }
            let site = Arc::clone(&self.site);
            if let Some((_, relay, which)) = self.oldest_of(|text| site.is_in_the_way(text)) {
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
            w.freeze,
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
                self.tick(Duration::from_millis(millis)).await;
            }
            4 => {
                let segments = self.rng.u64(1..12);
                self.tick(Duration::from_secs(segments)).await;
            }
            5 => self.pause_or_resume().await,
            6 => self.cut().await,
            7 => self.crash().await,
            8 => self.restart().await,
            9 => {
                self.make_way().await;
                self.say("skip 60000 numbers");
                let site = Arc::clone(&self.site);
                self.through(async move { site.skip_numbers(60_000).await }).await;
            }
            10 => self.prune().await,
            11 => self.look().await,
            _ => self.freeze().await,
        }
        self.settle_down().await;
        self.collect_stopped().await;
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
        self.oldest_of(|_| true)
    }

    fn oldest_of(&self, wanted: impl Fn(&str) -> bool) -> Option<(Instant, usize, usize)> {
        let relays = self.relays.iter().enumerate();
        let waiting = relays.flat_map(|(relay, process)| {
            process
                .waiting
                .iter()
                .enumerate()
                .map(move |(which, (since, waiting))| (since, relay, which, &waiting.text))
        });
        let wanted = waiting.filter(|(.., text)| wanted(text));
        wanted.map(|(since, relay, which, _)| (*since, relay, which)).min()
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
    pub(crate) async fn tick(&mut self, by: Duration) {
        self.say(format!("{} ms later", by.as_millis()));
        self.site.advance(by).await;
        for relay in &mut self.relays {
            relay.advance(by);
        }
    }

    pub(crate) fn any_relay(&mut self) -> Option<usize> {
        (!self.relays.is_empty()).then(|| self.rng.usize(0..self.relays.len()))
    }

    pub(crate) async fn let_all_go(&mut self) {
        for _ in 0..200 {
            // What seemed to wait for a lock may only be slow: it gets its time before the clock moves again.
            self.relays.iter_mut().for_each(Process::may_be_free);
            self.settle_down().await;
            let mut gone = Vec::new();
            for relay in self.relays.iter_mut().filter(|relay| !relay.is_frozen()) {
                while !relay.waiting.is_empty() {
                    let text = relay.let_go(0);
                    gone.push(format!("{}: {}", relay.name, words(&text)));
                }
            }
            if gone.is_empty() {
                return;
            }
            self.trace.append(&mut gone);
        }
    }
}

/// A statement in few words.
pub(crate) fn words(text: &str) -> String {
    let line = text.lines().find(|line| !line.starts_with("--")).unwrap_or(text);
    let mut short: String = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ");
    if short.is_empty() {
        line.clone_into(&mut short);
    }
    short.chars().take(110).collect()
}
