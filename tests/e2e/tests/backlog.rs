//! A large backlog changes neither how soon a relay starts to deliver nor how much memory it needs.

use std::time::{Duration, Instant};

use postroom_e2e::{World, within};

const BACKLOG: usize = 200_000;
const MIB: u64 = 1024 * 1024;

/// How often a start is measured: other programs share the machine, and one start that is held up proves nothing.
const STARTS: usize = 3;

/// Time to the first delivery, and memory one second after it.
fn start(world: &World) -> (Duration, u64) {
    let journal = world.journal();
    let before = journal.len();
    let since = Instant::now();
    let relay = world.relay("relay");
    within(Duration::from_mins(1), "the first delivery", || (journal.len() > before).then_some(()));
    let first = since.elapsed();
    let then = Instant::now();
    within(Duration::from_mins(1), "a second later", || (then.elapsed() >= Duration::from_secs(1)).then_some(()));
    let memory = relay.memory();
    relay.stop();
    (first, memory)
}

#[test]
fn a_backlog_of_two_hundred_thousand_changes_neither_start_nor_memory() {
    let [empty, full] = [0, BACKLOG].map(|events| {
        let world = World::with(
            env!("CARGO_BIN_EXE_e2e-child"),
            "[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"mailer\"\nto = { exec = { command = {child} } }\n",
        );
        if events > 0 {
            world.append(events);
        }
        world
    });
    let (mut soonest, mut memories) = ([Duration::MAX; 2], [u64::MAX; 2]);
    for _ in 0..STARTS {
        empty.append(1);
        for (place, world) in [&empty, &full].into_iter().enumerate() {
            let (first, memory) = start(world);
            soonest[place] = soonest[place].min(first);
            memories[place] = memories[place].min(memory);
        }
    }
    let ([first, first_full], [memory, memory_full]) = (soonest, memories);
    println!(
        "first delivery {first:?} empty, {first_full:?} with {BACKLOG}; memory {} MiB and {} MiB",
        memory / MIB,
        memory_full / MIB
    );
    assert_eq!(empty.route("mailer")["delivered"], STARTS);
    let left = full.route("mailer")["due"].as_u64().unwrap();
    assert!(left > 50_000, "the backlog was there all the time; {left} left");
    assert!(memory_full <= memory + memory / 2 + 10 * MIB, "{memory_full} bytes with a backlog, {memory} without");
    // Reading the backlog would take many seconds.
    assert!(first_full <= first + first / 2 + Duration::from_millis(500), "{first_full:?}, {first:?} without");
}
