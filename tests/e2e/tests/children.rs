//! A child that dies, babbles or keeps silent pauses its route and harms no event; when it is well again all goes on.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use postroom_e2e::{World, until};

const EVENTS: usize = 30;

fn breaks_and_recovers(mode: &str, reason: &str) {
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        "[store.main]\nurl = \"sqlite://shop.db\"\n[retry]\nattempts = 2\n\
         [[route]]\nname = \"mailer\"\nbreaker = { cooldown = \"100ms\", cooldown_max = \"400ms\" }\n\
         to = { exec = { command = {child}, timeout = \"300ms\" } }\n\
         [[route]]\nname = \"other\"\nto = { noop = {} }\n",
    );
    world.mode(mode);
    let relay = world.relay("relay");
    world.append(EVENTS);
    // More outages than there are attempts: had they been counted, everything would be dead by now.
    world.received(4);
    until("status shows the open breaker and why", || {
        let route = world.route("mailer");
        route["state"] == "breaker_open" && route["message"].as_str().unwrap().contains(reason)
    });
    let mailer = world.route("mailer");
    assert_eq!((&mailer["dead"], &mailer["retrying"], &mailer["delivered"]), (&0.into(), &0.into(), &0.into()));
    until("the other route goes on", || world.route("other")["delivered"] == EVENTS);

    world.mode("well");
    until("the route recovers by itself", || {
        let mailer = world.route("mailer");
        mailer["state"] == "running" && mailer["delivered"] == EVENTS
    });
    assert_eq!(world.route("mailer")["dead"], 0);
    for reception in world.journal().read() {
        assert_eq!(reception.attempt, 1, "an outage is nobody's attempt: {reception}");
    }
    let event = world.journal().read().swap_remove(0).id;
    let routes = world.json(&["event", "show", &event])["routes"].clone();
    assert!(routes.as_array().unwrap().iter().all(|r| r["attempts"] == serde_json::json!([])), "{routes}");
    relay.stop();
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn a_child_that_dies_pauses_its_route_and_costs_no_attempt() {
    breaks_and_recovers("die", "exec.died");
}

#[test]
fn a_child_that_babbles_pauses_its_route_and_costs_no_attempt() {
    breaks_and_recovers("babble", "exec.timeout");
}

#[test]
fn a_child_that_keeps_silent_pauses_its_route_and_costs_no_attempt() {
    breaks_and_recovers("silence", "exec.timeout");
}

#[test]
fn a_child_that_cannot_be_started_is_named_and_started_when_it_is_there() {
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        "[store.main]\nurl = \"sqlite://shop.db\"\n\
         [[route]]\nname = \"mailer\"\nbreaker = { cooldown = \"100ms\", cooldown_max = \"400ms\" }\n\
         to = { exec = { command = [\"./late\", \"journal\", \"mode\"] } }\n",
    );
    let relay = world.relay("relay");
    world.append(EVENTS);
    until("status shows what is missing", || {
        let route = world.route("mailer");
        route["state"] == "breaker_open" && route["message"].as_str().unwrap().contains("\"./late\" was not found")
    });
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_e2e-child"), world.path("late")).unwrap();
    until("everything is delivered", || world.route("mailer")["delivered"] == EVENTS);
    assert_eq!(world.route("mailer")["dead"], 0);
    relay.stop();
}
