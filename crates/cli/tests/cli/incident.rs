//! The incident of `docs/incident.md`: everything in it is broken for real, and what is shown is what is printed.
//!
//! `POSTROOM_WRITE_DOCS=1` writes what is printed into the page.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what is not as the page says fails the test"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use postroom_testbed::brokers::Redis;
use postroom_testbed::{Cluster, ClusterOptions, OwnServer, faketime};
use serde_json::Value;
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::docs::{page, root};
use crate::reader::Commands;
use crate::world::{Running, World};

/// Everything that can break.
struct Night {
    world: World,
    redis: OwnServer,
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
    relay: Option<Running>,
    report: Option<PgConnection>,
}

impl Night {
    fn begin() -> Self {
        let world = World::bare();
        let shift = world.path("shift");
        fs::write(&shift, "+0").unwrap();
        let mut environment = faketime("+0");
        environment.retain(|(name, _)| name != "FAKETIME");
        environment.push(("FAKETIME_TIMESTAMP_FILE".to_owned(), shift.display().to_string()));
        environment.push(("FAKETIME_NO_CACHE".to_owned(), "1".to_owned()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = ClusterOptions { environment, ..ClusterOptions::default() };
        let cluster = runtime.block_on(Cluster::start_with(options));
        let redis = OwnServer::start(&Redis).unwrap();
        let config = format!(
            "name = \"shop-relay\"\n[store.main]\nurl = \"{}\"\nlanes = 2\n[relay]\nlease = \"5s\"\n\
             [[route]]\nname = \"orders\"\nmatch = [\"order.*\"]\nto = {{ redis = {{ url = \"redis://127.0.0.1:{}\", stream = \"orders\" }} }}\n\
             [[route]]\nname = \"mailer\"\nmatch = [\"order.*\"]\nto = {{ exec = {{ command = [\"sh\", \"mailer.sh\"] }} }}\n",
            cluster.url("postgres"),
            redis.site.port
        );
        world.write("postroom.toml", &config);
        world.ok(&["store", "migrate", "up"]);
        let mut night = Self { world, redis, cluster, runtime, relay: None, report: None };
        night.start_relay();
        night
    }

    fn start_relay(&mut self) {
        let mut command = self.world.command(&["relay", "run"]);
        command.stderr(Stdio::null());
        self.relay = Some(Running::start(command));
    }

    /// Looks until the routes are so.
    fn until(&self, what: &str, so: impl Fn(&Value, &Value) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            let status = self.world.json(&["status"]);
            let route = |name: &str| status["routes"].as_array().unwrap().iter().find(|r| r["route"] == name).cloned();
            let (orders, mailer) = (route("orders").unwrap(), route("mailer").unwrap());
            if so(&orders, &mailer) {
                return;
            }
            assert!(Instant::now() < deadline, "not {what}: {status}");
        }
    }

    /// What happens before this part of the page.
    fn goes_on(&mut self, part: &str) {
        match part {
            "Is it moving?" => {
                self.world.append("good-1", "order.placed", "order-7");
                self.until("delivered", |orders, mailer| orders["delivered"] == 1 && mailer["delivered"] == 1);
            }
            "02:10: the broker stops" => {
                self.redis.stop().unwrap();
                self.world.append("good-2", "order.paid", "order-7");
                let open = |orders: &Value| orders["state"] == "breaker_open" && orders["message"] != "";
                self.until("open", |orders, mailer| open(orders) && mailer["delivered"] == 2);
            }
            "the broker is back" => {
                self.redis.resume().unwrap();
                self.until("back", |orders, _| orders["delivered"] == 2 && orders["state"] == "running");
            }
            "02:40: one event is poison" => {
                self.world.append("bad-1", "order.bad", "order-8");
                self.until("dead", |orders, mailer| mailer["dead"] == 1 && orders["delivered"] == 3);
            }
            "03:15: the database cannot clean up" => {
                let url = format!("{}?application_name=report", self.cluster.url("postgres"));
                let mut session = self.runtime.block_on(PgConnection::connect(&url)).unwrap();
                let begin = "begin isolation level repeatable read; select count(*) from pg_class";
                self.runtime.block_on(session.execute(begin)).unwrap();
                self.report = Some(session);
                let shift = self.world.path("shift");
                fs::write(shift, "+600").unwrap();
                // The clock jumped: the relay says again that it lives.
                let alive = |world: &World| world.json(&["status"])["relays"][0]["alive"] == true;
                let deadline = Instant::now() + Duration::from_mins(5);
                while !alive(&self.world) || !self.world.run(&["doctor"]).stdout.contains("horizon_pinned") {
                    assert!(Instant::now() < deadline, "{}", self.world.run(&["doctor"]).stdout);
                }
            }
            "03:30: a relay is killed" => {
                drop(self.report.take());
                self.relay.take().unwrap().signal_until_end(Signal::SIGKILL);
                self.world.append("good-3", "order.placed", "order-9");
                let nobody = |route: &Value| route["state"] == "orphan" && route["due"] == 1;
                self.until("nobody", |orders, mailer| nobody(orders) && nobody(mailer));
            }
            "a relay runs again" => {
                self.start_relay();
                self.until("delivered", |orders, mailer| orders["delivered"] == 4 && mailer["delivered"] == 3);
            }
            other => panic!("nobody knows what happens at {other:?}"),
        }
    }

    /// What the command prints between two probes of the broker: during one, the breaker is half open.
    fn shell(&self, command: &str) -> String {
        let deadline = Instant::now() + Duration::from_mins(5);
        loop {
            let printed = self.printed(command);
            if !printed.contains("half open") || Instant::now() > deadline {
                return printed;
            }
        }
    }

    fn printed(&self, command: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_postroom"));
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.world.folder())
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .env("USER", "ada")
            .env_remove("POSTROOM_WRITE_DOCS")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// Which part of the page each block of commands belongs to.
const PARTS: [&str; 9] = [
    "Is it moving?",
    "",
    "02:10: the broker stops",
    "the broker is back",
    "02:40: one event is poison",
    "",
    "",
    "03:15: the database cannot clean up",
    "03:30: a relay is killed",
];

/// The same for every run: numbers, ids and widths do not count.
fn even(text: &str) -> String {
    let mut even = String::new();
    for word in text.split_whitespace().filter(|word| !word.chars().all(|c| matches!(c, '─' | '-'))) {
        let digits = word.chars().any(|c| c.is_ascii_digit());
        even.push_str(if digits { "#" } else { word });
        even.push(' ');
    }
    even
}

#[test]
fn the_incident_is_told_by_the_commands_as_the_page_says() {
    let (before, mut commands) = (page("docs/incident.md"), Commands::of("docs/incident.md"));
    let mut night = Night::begin();
    let mut told = String::new();
    let mut parts = PARTS.iter().chain(["a relay runs again"].iter());
    let mut pieces = before.split("```console\n");
    told.push_str(pieces.next().unwrap());
    for piece in pieces {
        let (_, after) = piece.split_once("```").unwrap();
        let block = commands.block();
        let part = parts.next().expect("a part for every block");
        if !part.is_empty() {
            night.goes_on(part);
        }
        told.push_str("```console\n");
        for step in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
            let printed = night.shell(command);
            if std::env::var_os("POSTROOM_WRITE_DOCS").is_none() {
                assert_eq!(even(&printed), even(shown), "$ {command}\n{printed}");
            }
            let printed = printed.replace(&format!(":{}", night.redis.site.port), ":16379");
            told.push_str(&format!("$ {command}\n{}\n", printed.trim_end()));
        }
        told.push_str("```");
        told.push_str(after);
    }
    assert!(parts.next().is_none(), "a block for every part");
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        fs::write(root().join("docs/incident.md"), told).unwrap();
    }
    night.relay.take().unwrap().signal_until_end(Signal::SIGTERM);
}
