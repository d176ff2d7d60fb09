//! A large backlog changes neither how soon a relay starts to deliver nor how much memory it needs.

use std::time::{Duration, Instant};

use postroom_e2e::{World, within};

const BACKLOG: usize = 200_000;
const MIB: u64 = 1024 * 1024;

/// Time to the first delivery, and memory one second after it.
fn start(world: &World) -> (Duration, u64) {
    let journal = world.journal();
    let since = Instant::now();
    let relay = world.relay("relay");
    within(Duration::from_mins(1), "the first delivery", || (!journal.is_empty()).then_some(()));
    let first = since.elapsed();
    let then = Instant::now();
    within(Duration::from_mins(1), "a second later", || (then.elapsed() >= Duration::from_secs(1)).then_some(()));
    let memory = relay.memory();
    relay.stop();
    (first, memory)
}

#[test]
fn a_backlog_of_two_hundred_thousand_changes_neither_start_nor_memory() {
    let worlds = [1, BACKLOG].map(|events| {
        let world = World::with(
            env!("CARGO_BIN_EXE_e2e-child"),
            "[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"mailer\"\nto = { exec = { command = {child} } }\n",
        );
        world.append(events);
        world
    });
    let [(first, memory), (first_full, memory_full)] = worlds.each_ref().map(start);
    println!(
        "first delivery {first:?} empty, {first_full:?} with {BACKLOG}; memory {} MiB and {} MiB",
        memory / MIB,
        memory_full / MIB
    );
    assert_eq!(worlds[0].route("mailer")["delivered"], 1);
    let left = worlds[1].route("mailer")["due"].as_u64().unwrap();
    assert!(left > 100_000, "the backlog was there all the time; {left} left");
    assert!(memory_full <= memory + memory / 2 + 10 * MIB, "{memory_full} bytes with a backlog, {memory} without");
    // Other programs share the machine, so that a start varies; reading the backlog would take many seconds.
    assert!(first_full <= first + first / 2 + Duration::from_millis(500), "{first_full:?}, {first:?} without");
}
