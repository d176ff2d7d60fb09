//! What signals do to a relay with deliveries on their way.

use std::thread;

use nix::sys::signal::Signal;
use postroom_e2e::{World, until};

/// A world whose child has received one event and does not answer yet.
fn holding() -> World {
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        "[store.main]\nurl = \"sqlite://shop.db\"\n[relay]\nlease = \"1s\"\n\
         [[route]]\nname = \"mailer\"\nto = { exec = { command = {child} } }\n",
    );
    world.mode("hold");
    world.append(3);
    world
}

#[test]
fn the_first_signal_waits_for_what_is_on_its_way_and_sends_no_more() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let world = holding();
        let mut relay = world.relay("relay");
        world.received(1);
        relay.signal(signal);
        until("it says that it stops", || world.log("relay").contains("stopping: no new deliveries"));
        assert!(relay.is_alive(), "it waits for the answer");
        world.append(5);
        world.mode("well");
        assert_eq!(relay.end(), 0);
        // Three were handed over before the signal; each counts, and the five that came later were left alone.
        assert_eq!(world.route("mailer")["delivered"], 3);
        world.ok(&["relay", "run", "--drain"]);
        assert_eq!(world.journal().len(), 8, "nothing was sent twice");
        assert_eq!(world.run(&["verify"]).code, 0);
    }
}

#[test]
fn a_second_signal_ends_it_at_once_and_the_next_relay_delivers_what_was_left() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let world = holding();
        let mut relay = world.relay("relay");
        world.received(1);
        relay.signal(signal);
        until("it says that it stops", || world.log("relay").contains("stopping: no new deliveries"));
        // Two of a kind may arrive as one, so they are sent until it has ended.
        while relay.is_alive() {
            relay.signal(signal);
            thread::yield_now();
        }
        assert_eq!(relay.end(), code);
        world.mode("well");
        world.ok(&["relay", "run", "--drain"]);
        assert_eq!(world.route("mailer")["delivered"], 3);
        assert_eq!(world.run(&["verify"]).code, 0);
    }
}
