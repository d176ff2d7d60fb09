//! Who delivers when a relay is gone: the one that stands by, soon after a crash and at once after a stop.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::time::{Duration, Instant};

use postroom_e2e::{Producer, World, until, within};

const LEASE: Duration = Duration::from_secs(2);

fn world() -> World {
    World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        "[store.main]\nurl = \"sqlite://shop.db\"\n[relay]\nlease = \"2s\"\n\
         [[route]]\nname = \"mailer\"\nto = { exec = { command = {child} } }\n",
    )
}

/// Waits until a delivery of this relay comes in; how long that took.
fn delivers(world: &World, relay: u32, most: Duration) -> Duration {
    let journal = world.journal();
    within(most, "the relay delivers", || journal.read().iter().any(|r| r.relay == relay).then_some(())).1
}

/// How many lanes each live relay holds, by name.
fn holders(world: &World) -> Vec<(String, u64)> {
    let status = world.status();
    let relays = status["relays"].as_array().unwrap().iter().filter(|r| r["alive"] == true);
    let mut held: Vec<_> =
        relays.map(|r| (r["relay"].as_str().unwrap().to_owned(), r["lanes"].as_u64().unwrap())).collect();
    held.sort();
    held
}

#[test]
fn a_standby_takes_over_when_the_lease_of_a_killed_relay_ends_and_at_once_after_a_stop() {
    let world = world();
    let producer = Producer::start(world.path("shop.db"), Duration::from_millis(10));
    let first = world.relay("first");
    delivers(&world, first.pid(), Duration::from_secs(30));
    let second = world.relay("second");
    let both = [("first".to_owned(), 1), ("second".to_owned(), 0)];
    until("status shows both, and who holds the lane", || holders(&world) == both);
    let lane = &world.json(&["route", "show", "mailer"])["lanes"][0];
    assert!(lane["holder"].as_str().unwrap().starts_with("first"), "{lane}");

    let killed = Instant::now();
    first.kill();
    delivers(&world, second.pid(), LEASE + Duration::from_secs(5));
    let took = killed.elapsed();
    assert!(took <= LEASE + Duration::from_secs(1), "the take-over took {took:?}");
    let lane = &world.json(&["route", "show", "mailer"])["lanes"][0];
    assert!(lane["holder"].as_str().unwrap().starts_with("second"), "{lane}");

    let third = world.relay("third");
    until("the third stands by", || holders(&world) == [("second".to_owned(), 1), ("third".to_owned(), 0)]);
    second.stop();
    let took = delivers(&world, third.pid(), Duration::from_secs(5));
    assert!(took <= Duration::from_secs(1), "the take-over after a stop took {took:?}");
    until("a stopped relay is not shown alive", || holders(&world) == [("third".to_owned(), 1)]);
    producer.stop();
    third.stop();
}
