//! `postroom dev` as a newcomer meets it: the first minute, and every command it prints.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use postroom_e2e::{Running, World, until};

/// A running demo: what it prints as lines, and what it said at the start.
struct Demo {
    running: Running,
    lines: BufReader<ChildStdout>,
}

impl Demo {
    fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.command(args);
        command.stderr(File::create(world.path("banner")).unwrap());
        let mut running = Running::start(command);
        let lines = BufReader::new(running.stdout());
        Self { running, lines }
    }

    /// Reads on until a line contains all of these.
    fn wait_for(&mut self, words: &[&str]) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the demo ended without {words:?}");
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    fn interrupt(mut self) -> String {
        self.running.signal(Signal::SIGINT);
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert_eq!(self.running.end(), 0);
        rest
    }
}

#[test]
fn the_first_event_is_there_at_once_and_every_printed_command_works_on_the_running_demo() {
    let world = World::new("");
    let since = Instant::now();
    // Nothing but what a newcomer types.
    let mut demo = Demo::start(&world, &["dev"]);
    demo.wait_for(&["appended", "order.placed"]);
    let took = since.elapsed();
    assert!(took <= Duration::from_secs(3), "the first event took {took:?}");
    demo.wait_for(&["delivered", "order.placed"]);
    demo.wait_for(&["appended", "order.paid"]);
    demo.wait_for(&["will be retried", "the mail server is busy"]);
    demo.wait_for(&["appended", "order.shipped"]);

    let banner = std::fs::read_to_string(world.path("banner")).unwrap();
    let printed: Vec<Vec<&str>> = banner
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| line.split("   and then").next().unwrap().split_whitespace().collect())
        .collect();
    let [status, tail, pause, dead, replay, verified, kill] = &printed[..] else { panic!("{banner}") };
    for (follow, words) in [(status, "mailer"), (tail, "order.")] {
        let mut follower = Running::start(world.command(&follow[1..]));
        let mut seen = BufReader::new(follower.stdout()).lines();
        assert!(seen.any(|line| line.unwrap().contains(words)), "{follow:?}");
        follower.signal(Signal::SIGINT);
        assert_eq!(follower.end(), 0, "{follow:?}");
    }
    demo.wait_for(&["dead letter", "order.shipped"]);
    assert!(world.ok(&dead[1..]).contains("order.shipped"));
    world.ok(&pause[1..]);
    demo.wait_for(&["mailer is paused"]);
    let resume: Vec<&str> = pause[1..].iter().map(|word| if *word == "pause" { "resume" } else { word }).collect();
    world.ok(&resume);
    demo.wait_for(&["mailer is running"]);
    assert_eq!(world.run(&replay[1..]).code, 4, "it asks before it sends again, and nobody can answer here");
    world.ok(&[&replay[1..], &["--yes"]].concat());
    demo.wait_for(&["delivered", "order.shipped"]);
    world.ok(&verified[1..]);

    let goes_on = banner.lines().find_map(|line| line.split_once("and then continue with: ")).unwrap().1;
    let goes_on: Vec<&str> = goes_on.split_whitespace().skip(1).collect();
    assert_eq!(kill[..], ["kill", "-9", &demo.running.pid().to_string()]);
    demo.running.kill();
    let mut demo = Demo::start(&world, &goes_on);
    demo.wait_for(&["delivered"]);
    let told = demo.interrupt();
    let last = told.lines().last().unwrap_or_default();
    assert!(last.contains("stopped") && last.contains(" appended, ") && last.contains(" dead"), "{told}");
    world.ok(&verified[1..]);
}

#[test]
fn a_demo_killed_again_and_again_loses_nothing() {
    let world = World::new("");
    for _ in 0..3 {
        let mut command = world.command(&["dev", "--rate", "50/s", "--dir", "demo"]);
        command.stderr(Stdio::null());
        let mut running = Running::start(command);
        let lines = BufReader::new(running.stdout()).lines();
        assert_eq!(lines.filter(|line| line.as_ref().unwrap().contains("delivered")).take(10).count(), 10);
        running.kill();
    }
    // One more order, and then nothing new for an hour: retries and what waits behind them come to an end.
    let mut demo = Demo::start(&world, &["dev", "--rate", "1/h", "--dir", "demo"]);
    demo.wait_for(&["delivered"]);
    let status = || world.json(&["status", "--config", "demo/postroom.toml"]);
    until("what the killed ones left is delivered", || {
        let mailer = &status()["routes"][0];
        ["due", "retrying", "blocked_keys"].iter().all(|open| mailer[open] == 0)
    });
    demo.interrupt();
    world.ok(&["verify", "--config", "demo/postroom.toml"]);
    let status = status();
    let (mailer, events) = (&status["routes"][0], status["stores"][0]["events"].as_u64().unwrap());
    let done = mailer["delivered"].as_u64().unwrap() + mailer["dead"].as_u64().unwrap();
    assert_eq!(done, events, "every event is delivered or a visible dead letter: {status}");
}
