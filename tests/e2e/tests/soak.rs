//! Relays at work for a long time, on a log whose partitions turn every few seconds and is emptied all the time: routes to every
//! kind of destination are paused for several turns, destinations go down, relays die, are frozen and restarted, the database
//! is restarted, backlogs come, transactions stay open. Nothing is lost, and memory, tables and statements stay as they were.
//!
//! `cargo test` runs it for half a minute, `cargo xtask soak --minutes 30` for longer. Its seed repeats which faults come in
//! which order, not the race.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::thread;
use std::time::{Duration, Instant};

use postroom_e2e::{Brokers, Producers, Relays, Samples, Server, Terms, World, until, within};
use serde_json::Value;

const IN_FLIGHT_MAX: usize = 256;
const RELAYS: usize = 3;
const LEASE: Duration = Duration::from_secs(3);
/// Seven partitions of two seconds.
const TURN: Duration = Duration::from_secs(14);
/// Where every event goes: to the brokers, and to a child.
const ROUTES: [&str; 6] = ["kafka", "rabbitmq", "nats", "redis", "webhook", "exec"];
const TERMS: Terms<'_> = Terms { routes: &ROUTES, in_flight_max: IN_FLIGHT_MAX };
/// Events per second: what two cores do besides six deliveries of each, in a debug build.
const RATE: usize = 40;
const BACKLOG: usize = 2_000;
/// A route whose oldest event is due for less has caught up.
const CAUGHT_UP: f64 = 2.0;
/// How long the relays may take to catch up after whatever was done to them.
const PATIENCE: Duration = Duration::from_mins(4);
/// Between two looks at how far they are: each is a process.
const LOOK: Duration = Duration::from_secs(1);

/// How long it takes, and what depends on that.
struct Form {
    short: bool,
    load: Duration,
    sample: Duration,
    pause: Duration,
    open: Duration,
}

impl Form {
    fn wanted() -> Self {
        match std::env::var("POSTROOM_SOAK_MINUTES") {
            Err(_) => Self {
                short: true,
                load: Duration::from_secs(30),
                sample: Duration::from_secs(2),
                pause: TURN,
                open: TURN / 2,
            },
            Ok(minutes) => Self {
                short: false,
                load: Duration::from_mins(minutes.parse().unwrap()),
                sample: Duration::from_secs(30),
                pause: TURN * 3,
                open: TURN * 2,
            },
        }
    }
}

/// What is done; what takes its time goes on beside the next ones.
#[derive(Debug, Clone, Copy)]
enum Act {
    Pause,
    StayOpen,
    Backlog,
    Outage(&'static str),
    Kill,
    Restart,
    Freeze,
    RestartServer,
}

/// All of it once, what lasts longest first.
fn acts(rng: &mut fastrand::Rng) -> Vec<Act> {
    let mut acts = vec![Act::Backlog, Act::Kill, Act::Restart, Act::Freeze, Act::RestartServer];
    acts.extend(Brokers::ROUTES.map(Act::Outage));
    rng.shuffle(&mut acts);
    acts.splice(0..0, [Act::Pause, Act::StayOpen]);
    acts
}

/// Everything there is while it runs.
struct Soak<'w> {
    world: &'w World,
    form: Form,
    rng: fastrand::Rng,
    since: Instant,
    server: &'w Server,
    brokers: Brokers<'w>,
    producers: Producers,
    relays: Relays<'w>,
    samples: Samples,
    sampled: Instant,
    paused: Option<(&'static str, Instant)>,
    outages: usize,
    done: usize,
}

impl Soak<'_> {
    #[allow(clippy::print_stdout, reason = "the course of a long run")]
    fn act(&mut self, act: Act) {
        println!("{:6.1} s: {act:?}", self.since.elapsed().as_secs_f64());
        self.done += 1;
        // The first one lives from the beginning to the end: what leaks shows in its memory.
        let which = self.rng.usize(1..RELAYS);
        match act {
            Act::Pause if self.paused.is_none() => {
                let route = ROUTES[self.rng.usize(..ROUTES.len())];
                self.world.ok(&["route", "pause", route]);
                self.paused = Some((route, Instant::now()));
            }
            // One route is enough: all partitions have to wait for it.
            Act::Pause => {}
            Act::StayOpen => self.producers.stay_open(self.form.open),
            Act::Backlog => self.producers.burst(BACKLOG),
            Act::Kill => self.relays.kill(which),
            Act::Restart => self.relays.restart(which),
            Act::Freeze => drop(self.relays.freeze(self.rng.usize(..RELAYS), LEASE)),
            Act::RestartServer => {
                self.relays.all_suffered();
                self.server.restart();
            }
            Act::Outage(route) => {
                self.outages += 1;
                self.brokers.stop(route, self.rng.bool());
                let then = Instant::now();
                self.until("the outage was long enough", |_| then.elapsed() >= LEASE);
                self.brokers.resume(route);
            }
        }
    }

    /// Waits until it is so, given what `status` says of the routes, and looks at everything meanwhile.
    fn until(&mut self, what: &str, so: impl Fn(&[Value]) -> bool) {
        let since = Instant::now();
        loop {
            let status = self.world.status();
            let routes = status["routes"].as_array().unwrap();
            if self.sampled.elapsed() >= self.form.sample {
                self.samples.look(&self.relays, routes.iter().map(late).fold(0.0, f64::max));
                self.sampled = Instant::now();
            }
            if let Some((route, since)) = self.paused
                && since.elapsed() >= self.form.pause
            {
                self.world.ok(&["route", "resume", route]);
                self.paused = None;
            }
            if so(routes) {
                return;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "after {PATIENCE:?} still not: {what}: {status}\n{}",
                self.producers.scene()
            );
            thread::park_timeout(LOOK);
        }
    }

    fn until_caught_up(&mut self) {
        let paused = self.paused.map(|(route, _)| route);
        self.until("the routes have caught up", |routes| {
            routes.iter().filter(|route| route["route"].as_str() != paused).all(|route| late(route) < CAUGHT_UP)
        });
    }
}

/// When nothing is open any more, retention leaves nothing in the log.
fn until_emptied(world: &World, samples: &Samples) {
    let emptied = || {
        world.ok(&["prune", "--yes"]);
        (samples.in_rings() == 0).then_some(())
    };
    within(PATIENCE, "retention has emptied the rings", emptied);
}

fn late(route: &Value) -> f64 {
    route["oldest_due_seconds"].as_f64().unwrap_or_default()
}

fn config(server: &Server, brokers: &Brokers<'_>) -> String {
    format!(
        "[store.main]\nurl = \"{}\"\npartitions = 7\nsegment = \"2s\"\n\
         poll = {{ min = \"20ms\", max = \"200ms\" }}\n\
         [retention]\ndelivered = \"4s\"\nattempts = \"4s\"\n\
         [relay]\nlease = \"{}s\"\nin_flight_max = {IN_FLIGHT_MAX}\n\
         [retry]\nbase = \"100ms\"\n\
         [http]\nlisten = \"127.0.0.1:0\"\n\
         {}\
         [[route]]\nname = \"exec\"\nto = {{ exec = {{ command = {{child}} }} }}\n",
        server.url(),
        LEASE.as_secs(),
        brokers.routes()
    )
}

#[test]
fn a_long_run_with_every_destination_and_fault_loses_nothing_and_stays_level() {
    let form = Form::wanted();
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().expect("a seed"));
    println!("SEED={seed}");
    let since = Instant::now();
    let world = World::new(env!("CARGO_BIN_EXE_e2e-child"));
    world.mode("rarely flaky");
    let brokers = Brokers::start(&world);
    let server = Server::start();
    world.configure(&config(&server, &brokers));
    world.ok(&["store", "migrate", "up"]);
    println!("{:6.1} s: all are up", since.elapsed().as_secs_f64());
    let producers = Producers::steady(&server.url(), RATE);
    let relays = Relays::start(&world, RELAYS);
    let mut soak = Soak {
        world: &world,
        rng: fastrand::Rng::with_seed(seed),
        since,
        server: &server,
        brokers,
        producers,
        relays,
        samples: Samples::new(&server.url(), "postroom", since),
        sampled: Instant::now(),
        paused: None,
        outages: 0,
        done: 0,
        form,
    };
    soak.until_caught_up();
    let begun = Instant::now();
    while begun.elapsed() < soak.form.load {
        for act in acts(&mut soak.rng) {
            if begun.elapsed() < soak.form.load {
                soak.act(act);
                soak.until_caught_up();
            }
        }
    }
    while soak.paused.is_some() {
        soak.until_caught_up();
    }
    soak.producers.finish();
    until("all is produced", || soak.producers.have_finished());
    let committed = soak.producers.committed() as u64;
    soak.until("everything is delivered", |routes| {
        routes.iter().all(|route| route["delivered"].as_u64() >= Some(committed))
    });
    until_emptied(&world, &soak.samples);
    let doctor = world.run(&["doctor"]);
    println!("{}", doctor.stdout);
    assert_eq!(doctor.code, 0, "the doctor finds no problem");

    let Soak { relays, producers, brokers, samples, outages, done, form, .. } = soak;
    let ledger = producers.stop();
    let mut suffered = relays.stop();
    // A destination that goes down has up to a window of every relay on its way, and consumers cannot tell relays apart.
    suffered.insert(0, suffered.values().sum::<usize>() + outages * RELAYS);
    brokers.read(&world);
    let findings = TERMS.judge(&world, &ledger, &suffered);
    samples.print();
    println!(
        "{} events on {} routes, {RELAYS} relays, {done} acts, {outages} outages, {} turns of the partitions, {findings}, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        begun.elapsed().as_secs() / TURN.as_secs(),
        since.elapsed().as_secs_f64()
    );
    // A short one has too few samples to say: which fault falls into which third is chance.
    assert!(form.short || samples.growing().is_empty(), "these grow: {:#?}", samples.growing());
}
