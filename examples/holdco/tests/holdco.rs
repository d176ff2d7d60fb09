//! The company as its README runs it: `make run`, orders, and the consumer in Node.js.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::process::Command;
use std::sync::OnceLock;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use postroom_e2e::until;
use postroom_presets::{Program, System};

/// Whether the consumer's packages are there. Tests start at the same time; one of them fetches.
static PACKAGES: OnceLock<bool> = OnceLock::new();

/// A database and a virtual host of its own, with what `make run` starts. It ends before its database.
struct HoldCo {
    run: Option<Program>,
    system: System,
    broker: String,
}

impl HoldCo {
    /// `make run`, in an empty database.
    fn start() -> Self {
        let system = System::bare("holdco");
        let broker = system.virtual_host();
        let mut holdco = Self { run: None, system, broker };
        let fetch = || holdco.command("make").arg("consumer/node_modules").status().unwrap().success();
        assert!(PACKAGES.get_or_init(fetch), "npm cannot fetch the consumer's packages");
        holdco.run = Some(holdco.make("run"));
        until("the consumer is there", || holdco.waiting("notifications").is_some_and(|(_, consumers)| consumers == 1));
        holdco
    }

    fn make(&self, target: &str) -> Program {
        let mut make = self.command("make");
        make.args(["--silent", target]);
        Program::start(make, &self.system.path(&format!("{target}.log")))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("POSTROOM", self.system.command(&[]).get_program());
        command.env("DATABASE_URL", self.system.url()).env("RABBITMQ_URL", &self.broker);
        command
    }

    /// A command of the README: all it prints.
    fn sh(&self, command: &str) -> String {
        let command = command.replace("cargo run -q -p holdco --", env!("CARGO_BIN_EXE_holdco"));
        let output = self.command("sh").args(["-c", &command]).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// What the consumer of this target has said, in the order of the alphabet.
    fn said(&self, target: &str) -> Vec<String> {
        let said = std::fs::read_to_string(self.system.path(&format!("{target}.log"))).unwrap();
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// How many messages wait in a queue and how many consumers it has, if it is there.
    fn waiting(&self, queue: &str) -> Option<(u32, u32)> {
        self.system.wait(async {
            let connection = Connection::connect(&self.broker, ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let found = channel.queue_declare(queue.into(), passive, FieldTable::default()).await.ok()?;
            Some((found.message_count(), found.consumer_count()))
        })
    }
}

#[test]
fn the_company_does_what_its_readme_says() {
    let holdco = HoldCo::start();
    let readme = include_str!("../README.md");
    let block = |kind: &str| readme.split(kind).nth(1).unwrap().split("```").next().unwrap();
    for step in block("```console\n").split("$ ").skip(1) {
        let (command, shown) = step.split_once('\n').unwrap();
        assert_eq!(holdco.sh(command), shown, "{command}");
    }
    let told: Vec<&str> = block("```text\n").lines().collect();
    until("customers are notified", || holdco.said("run").len() >= told.len());
    assert_eq!(holdco.said("run"), told);
    until("everything is published", || {
        holdco.system.query("select status, count(*) from event_outbox group by 1") == ["published 4"]
    });
    let waiting = ["analytics.ingest", "erp.sync", "inventory.reconcile", "pricing.refresh", "notifications.dlq"]
        .map(|queue| holdco.waiting(queue).unwrap().0);
    assert_eq!(waiting, [4, 2, 1, 0, 0]);
    assert_eq!(holdco.system.query("select pieces from stock"), ["1"]);
    assert_eq!(holdco.system.query("select order_no, status from orders"), ["ORD-0001 paid"]);
    assert_eq!(holdco.system.query("select count(*) from event_inbox where consumer_name = 'notifications'"), ["2"]);
}

#[test]
fn an_event_that_comes_again_has_its_effect_once() {
    let holdco = HoldCo::start();
    holdco.system.script("insert into stock values ('lamp', 3)");
    holdco.sh("cargo run -q -p holdco -- order ORD-0001 1.00 lamp 1");
    until("the customer is notified", || holdco.said("run").len() == 1);
    let publish_again =
        "update event_outbox set status = 'pending' where aggregate_type = 'order' and status = 'published'";
    until("the relay has marked it", || holdco.system.query(&format!("{publish_again} returning 1")) == ["1"]);
    until("it came again", || holdco.said("run").iter().any(|line| line.ends_with(" came again")));
    assert_eq!(holdco.system.query("select text from notifications"), ["ORD-0001: order created"]);
}

#[test]
fn what_the_consumer_cannot_handle_goes_to_the_dead_letter_queue_and_the_others_go_on() {
    let holdco = HoldCo::start();
    let poison = "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) values \
                  (gen_random_uuid(), 'order', gen_random_uuid(), 'created', '{}') returning id";
    let id = &holdco.system.query(poison)[0];
    holdco.system.script("insert into stock values ('lamp', 3)");
    holdco.sh("cargo run -q -p holdco -- order ORD-0001 1.00 lamp 1");
    until("the poison is rejected and the order told", || holdco.said("run").len() == 2);
    let rejected = format!("{id} is rejected: the payload has no order_no");
    let mut expected = [rejected, "ORD-0001: order created".to_owned()];
    expected.sort();
    assert_eq!(holdco.said("run"), expected);
    until("it is in the dead-letter queue", || holdco.waiting("notifications.dlq") == Some((1, 0)));
    assert_eq!(holdco.waiting("notifications"), Some((0, 1)));
    // A try that failed leaves nothing in the inbox: mended and replayed, the event is new.
    assert_eq!(holdco.system.query(&format!("select count(*) from event_inbox where event_id = '{id}'")), ["0"]);
}

#[test]
fn without_its_database_the_consumer_ends_and_rejects_nothing() {
    let mut holdco = HoldCo::start();
    holdco.run = None;
    let relay = holdco.make("relay");
    holdco.system.script("insert into stock values ('lamp', 3)");
    holdco.sh("cargo run -q -p holdco -- order ORD-0001 1.00 lamp 1");
    until("the event waits", || holdco.waiting("notifications") == Some((1, 0)));
    drop(relay);
    let mut consumer = holdco.command("make");
    consumer.arg("consumer").env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none");
    assert!(!consumer.output().unwrap().status.success());
    until("the broker has its message back", || holdco.waiting("notifications") == Some((1, 0)));
    assert_eq!(holdco.waiting("notifications.dlq"), Some((0, 0)));
    let _consumer = holdco.make("consumer");
    until("the customer is notified", || holdco.said("consumer") == ["ORD-0001: order created"]);
}
