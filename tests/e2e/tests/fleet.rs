//! Three relays on one PostgreSQL under load, while relays and the server are killed, frozen, restarted and cut off:
//! nothing is lost, nothing invented, order holds, and a fault repeats no more than was in flight.
//!
//! Each kind of fault comes four times, each in the middle of some thousand deliveries; the long form is `cargo xtask faults`.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom_e2e::{Follower, Producers, Relays, Server, Terms, Watch, World, scale, until, within};
use postroom_testbed::{Database, Servers};

const IN_FLIGHT_MAX: usize = 64;
const ROUTES: [&str; 2] = ["billing", "search"];
const TERMS: Terms<'_> = Terms { routes: &ROUTES, in_flight_max: IN_FLIGHT_MAX };
const RELAYS: usize = 3;
const LEASE: Duration = Duration::from_secs(2);
/// How far producers may be ahead of the relays, so that both are at work until the end.
const AHEAD_MAX: usize = 4_000;

/// After so long without a delivery the test's output says how things stand; longer ones fail it.
const STALLED: Duration = Duration::from_secs(30);

fn world(url: &str, lease: Duration) -> World {
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        &format!(
            "[store.main]\nurl = \"{url}\"\n\
             [relay]\nlease = \"{}s\"\nin_flight_max = {IN_FLIGHT_MAX}\n\
             [retry]\nbase = \"50ms\"\nmax = \"200ms\"\n\
             [[route]]\nname = \"billing\"\nto = {{ exec = {{ command = {{child}} }} }}\n\
             [[route]]\nname = \"search\"\nto = {{ exec = {{ command = {{child}} }} }}\n",
            lease.as_secs()
        ),
    );
    world.mode("rarely flaky");
    world
}

/// Waits until the journal has so many lines; producers hear meanwhile how far the relays are.
#[allow(clippy::print_stdout, reason = "what a failed test shows")]
fn until_received(count: usize, journal: &mut Follower, producers: &Producers) {
    let mut received = journal.count();
    while received < count {
        producers.delivered(received / ROUTES.len());
        let (before, since, mut told) = (received, Instant::now(), false);
        until("deliveries go on", || {
            received = journal.count();
            if received == before && !told && since.elapsed() > STALLED {
                told = true;
                println!("{received} received, and nothing for {STALLED:?}:\n{}", producers.scene());
            }
            received > before
        });
    }
}

/// When something is done: after so many lines of the journal, before the last events are under way.
fn moments(rng: &mut fastrand::Rng, faults: usize, events: usize) -> Vec<usize> {
    let last = events * ROUTES.len() * 19 / 20;
    let mut moments: Vec<usize> = (0..faults).map(|_| rng.usize(..last)).collect();
    moments.sort_unstable();
    moments
}

/// What can be done to a fleet and its server.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Freeze,
    Restart,
    CrashServer,
    RestartServer,
    EndSessions,
}

const FAULTS: [Fault; 6] =
    [Fault::Kill, Fault::Freeze, Fault::Restart, Fault::CrashServer, Fault::RestartServer, Fault::EndSessions];

fn inflict(fault: Fault, which: usize, relays: &mut Relays<'_>, server: &Server, watch: &Watch) {
    match fault {
        Fault::Kill => relays.kill(which),
        Fault::Restart => relays.restart(which),
        Fault::Freeze => {
            watch.away();
            relays.freeze(which, LEASE);
            watch.back();
        }
        Fault::CrashServer => {
            relays.all_suffered();
            server.crash();
        }
        Fault::RestartServer => {
            relays.all_suffered();
            server.restart();
        }
        Fault::EndSessions => {
            // Those that the fault before ended may not be back yet.
            until("a relay has a session", || server.end_sessions() > 0);
            relays.all_suffered();
        }
    }
}

#[test]
fn faults_of_every_kind_under_load_lose_nothing_and_repeat_no_more_than_was_in_flight() {
    let (events, faults) = (16_000 * scale(), 4 * FAULTS.len() * scale());
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().expect("a seed"));
    println!("SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let since = Instant::now();
    let server = Server::start();
    let world = world(&server.url(), LEASE);
    let watch = Watch::start(&server.url());
    let producers = Producers::start(&server.url(), events, AHEAD_MAX);
    let mut relays = Relays::start(&world, RELAYS);
    let mut journal = world.journal().follow();
    let mut plan: Vec<Fault> = FAULTS.into_iter().cycle().take(faults).collect();
    rng.shuffle(&mut plan);
    for (fault, next) in plan.into_iter().zip(moments(&mut rng, faults, events)) {
        until_received(next, &mut journal, &producers);
        let which = rng.usize(..relays.count());
        let committed = producers.committed();
        println!("{:6.1} s: {committed} committed, {next} received, {fault:?} {which}", since.elapsed().as_secs_f64());
        inflict(fault, which, &mut relays, &server, &watch);
    }
    until_received(events * ROUTES.len(), &mut journal, &producers);
    until("all is produced", || producers.have_finished());
    let ledger = producers.stop();
    let idle = watch.stop();
    let suffered = relays.stop();
    let findings = TERMS.judge(&world, &ledger, &suffered);
    println!(
        "{} events on {} routes, {RELAYS} relays, {faults} faults, {findings}, idle in transaction {idle:?} at most, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        since.elapsed().as_secs_f64()
    );
    assert!(idle <= Duration::from_secs(1), "a relay was idle in a transaction for {idle:?}");
    assert!(findings.duplicates > 0, "no fault hit anything in flight, so the bound was not tested");
}

#[test]
fn graceful_restarts_of_one_of_three_under_load_repeat_nothing() {
    let restarts = 3 * RELAYS * scale();
    let server = Server::start();
    let world = world(&server.url(), Duration::from_secs(15));
    let producers = Producers::start(&server.url(), usize::MAX, 2_000);
    let mut relays = Relays::start(&world, RELAYS);
    let mut journal = world.journal().follow();
    for restart in 0..restarts {
        let next = journal.count() + fastrand::usize(..1_000);
        until_received(next, &mut journal, &producers);
        relays.restart(restart % RELAYS);
    }
    let ledger = producers.stop();
    let suffered = relays.stop();
    let findings = TERMS.judge(&world, &ledger, &suffered);
    println!("{} events, {restarts} graceful restarts of one of {RELAYS} relays, {findings}", ledger.committed.len());
    assert_eq!(findings.duplicates, 0);
}

/// Who holds the lanes of a route, and how many each; `None` for those that nobody holds.
fn holders(world: &World, route: &str) -> BTreeMap<Option<String>, usize> {
    let mut held = BTreeMap::new();
    for lane in world.json(&["route", "show", route])["lanes"].as_array().unwrap() {
        // The name and a random boot id.
        let holder = lane["holder"].as_str().map(|holder| holder.split('/').next().unwrap().to_owned());
        *held.entry(holder).or_default() += 1;
    }
    held
}

#[test]
fn a_relay_that_is_stopped_hands_its_lanes_over_at_once() {
    let server = Server::start();
    let world = world(&server.url(), Duration::from_mins(1));
    let mut relays = Relays::start(&world, RELAYS);
    until("each has its share", || ROUTES.iter().all(|route| holders(&world, route).len() == RELAYS));
    while relays.count() > 1 {
        let left = relays.count() - 1;
        relays.retire(0);
        let handed_over = || {
            let held: Vec<_> = ROUTES.iter().map(|route| holders(&world, route)).collect();
            held.iter().all(|held| held.len() == left && !held.contains_key(&None)).then_some(())
        };
        let ((), took) = within(Duration::from_secs(10), "the others have the lanes", handed_over);
        println!("handed over in {took:?}");
        assert!(took < Duration::from_secs(5), "far less than the lease: {took:?}");
    }
    relays.stop();
}

#[test]
fn behind_pgbouncer_kills_lose_nothing_and_repeat_no_more_than_was_in_flight() {
    let (events, kills) = (4_000 * scale(), 6 * scale());
    let since = Instant::now();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(Database::create(&Servers::find()));
    let world = world(&database.pgbouncer_url(), LEASE);
    let producers = Producers::start(&database.url(), events, AHEAD_MAX);
    let mut relays = Relays::start(&world, RELAYS);
    let mut journal = world.journal().follow();
    for (kill, next) in moments(&mut fastrand::Rng::new(), kills, events).into_iter().enumerate() {
        until_received(next, &mut journal, &producers);
        if kill % 3 == 2 {
            relays.freeze(kill % RELAYS, LEASE);
        } else {
            relays.kill(kill % RELAYS);
        }
    }
    until_received(events * ROUTES.len(), &mut journal, &producers);
    until("all is produced", || producers.have_finished());
    let ledger = producers.stop();
    let suffered = relays.stop();
    let findings = TERMS.judge(&world, &ledger, &suffered);
    println!(
        "{} events behind PgBouncer, {kills} faults, {findings}, {:.0} s",
        ledger.committed.len(),
        since.elapsed().as_secs_f64()
    );
}
