//! Two relays on one file under load, killed, frozen and restarted: nothing is lost, nothing invented, order holds, and
//! a fault repeats no more than was in flight. The long form is `cargo xtask faults`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom_e2e::{Producer, Relays, Terms, World, scale, until};

const IN_FLIGHT_MAX: usize = 16;
const ROUTES: [&str; 2] = ["billing", "search"];
const TERMS: Terms<'_> = Terms { routes: &ROUTES, in_flight_max: IN_FLIGHT_MAX };

fn world(lease: &str) -> World {
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        &format!(
            "[store.main]\nurl = \"sqlite://shop.db\"\n\
             [relay]\nlease = \"{lease}\"\nin_flight_max = {IN_FLIGHT_MAX}\n\
             [retry]\nbase = \"50ms\"\nmax = \"200ms\"\n\
             [[route]]\nname = \"billing\"\nto = {{ exec = {{ command = {{child}} }} }}\n\
             [[route]]\nname = \"search\"\nto = {{ exec = {{ command = {{child}} }} }}\n"
        ),
    );
    world.mode("flaky");
    world
}

/// Waits until relays have handed over a random number more.
fn a_random_moment(world: &World) {
    let journal = world.journal();
    let then = journal.len() + fastrand::usize(1..=60);
    until("deliveries go on", || journal.len() >= then);
}

#[test]
fn kills_and_freezes_lose_nothing_and_repeat_no_more_than_was_in_flight() {
    let kills = 16 * scale();
    let since = Instant::now();
    let world = world("1s");
    let producer = Producer::start(world.path("shop.db"), Duration::from_millis(8));
    let mut relays = Relays::start(&world, 2);
    for kill in 0..kills {
        a_random_moment(&world);
        if kill % 8 == 7 {
            let active = relays.active();
            let taken_over = relays.freeze_between_commits(active, Duration::from_secs(1), &world.path("shop.db"));
            assert!(taken_over, "the other relay did not take over from a frozen one");
            a_random_moment(&world);
        }
        // Mostly the one that is at work, now and then the one that stands by.
        let active = relays.active();
        relays.kill(if fastrand::u32(..5) == 0 { 1 - active } else { active });
    }
    let ledger = producer.stop();
    let faults = relays.stop();
    let findings = TERMS.judge(&world, &ledger, &faults);
    println!(
        "{} events on {} routes, {kills} kills, {} faults in all, {findings}, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        faults.values().sum::<usize>(),
        since.elapsed().as_secs_f64()
    );
    assert!(findings.duplicates > 0, "no kill hit anything in flight, so the bound was not tested");
}

#[test]
fn graceful_restarts_under_load_repeat_nothing() {
    let restarts = 8 * scale();
    let world = world("5s");
    let producer = Producer::start(world.path("shop.db"), Duration::from_millis(8));
    let mut relays = Relays::start(&world, 2);
    for _ in 0..restarts {
        a_random_moment(&world);
        let active = relays.active();
        relays.restart(active);
    }
    let ledger = producer.stop();
    relays.stop();
    let findings = TERMS.judge(&world, &ledger, &BTreeMap::new());
    println!("{} events, {restarts} graceful restarts, {findings}", ledger.committed.len());
    assert_eq!(findings.duplicates, 0);
}
