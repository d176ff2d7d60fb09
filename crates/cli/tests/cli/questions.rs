//! The twenty questions of an operator at night, each with the command that answers it and what the answer says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what does not come fails the test")]

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::http;
use crate::world::{Running, World};

/// A mailer that has no template for Switzerland: it keeps what it accepted in `got`.
const MAILER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
  case "$line" in
    *'"country":"CH"'*) [ -e template ] || { printf '{"id":"%s","error":"no template for %s"}\n' "$id" "$id"; continue; };;
  esac
  echo "$id" >> got
  printf '{"id":"%s","ok":true}\n' "$id"
done
"#;

const CONFIG: &str = r#"
name = "night"
[store.main]
url = "sqlite://shop.db"
[retry]
base = "1ms"
attempts = 2
[[route]]
name = "mailer"
match = ["order.*"]
start = "beginning"
to = { exec = { command = ["sh", "mailer.sh"] } }
[[route]]
name = "partner"
match = ["invoice.*"]
start = "beginning"
breaker = { cooldown = "10m", cooldown_max = "1h" }
to = { exec = { command = ["false"] } }
[[route]]
name = "archive"
match = ["order.*"]
start = "beginning"
to = { exec = { command = ["sh", "mailer.sh"] } }
"#;

fn append(world: &World, id: &str, kind: &str, key: &str, tenant: &str, country: &str) {
    let payload = format!(r#"{{"country":"{country}","id":"{id}"}}"#);
    world.ok(&["event", "append", "--id", id, "--type", kind, "--key", key, "--tenant", tenant, "--payload", &payload]);
}

/// Waits until a route is so.
fn until(world: &World, name: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_mins(5);
    loop {
        let routes = world.json(&["route", "ls"]);
        let route = routes.as_array().unwrap().iter().find(|route| route["route"] == name).cloned().unwrap_or_default();
        if so(&route) {
            return route;
        }
        assert!(Instant::now() < deadline, "{route}");
    }
}

/// A night: six orders go to Germany, six to Switzerland become dead letters, a partner is down, a route is paused, an order is
/// delayed, and dead letters are replayed in vain.
fn night() -> (World, Running, String) {
    let world = World::bare();
    world.write("mailer.sh", MAILER);
    world.write("postroom.toml", CONFIG);
    world.ok(&["store", "migrate", "up"]);
    for n in 1..=6 {
        append(&world, &format!("de-{n}000"), "order.placed", &format!("order-{n}"), "globex", "DE");
    }
    for n in 1..=6 {
        let kind = if n > 4 { "order.changed" } else { "order.placed" };
        append(&world, &format!("ch-{n}000"), kind, &format!("swiss-{n}"), "acme", "CH");
    }
    append(&world, "inv-1", "invoice.sent", "invoice-1", "acme", "DE");
    world.ok(&[
        "event",
        "append",
        "--id",
        "late",
        "--type",
        "order.placed",
        "--key",
        "order-1",
        "--available-at",
        "1h",
    ]);
    let address = http::free();
    let relay = http::relay(&world, &["--listen", &address], &[]);
    until(&world, "mailer", |route| route["delivered"] == 6 && route["dead"] == 6);
    until(&world, "archive", |route| route["delivered"] == 6);
    until(&world, "partner", |route| route["state"] == "breaker_open" && !route["next_try"].is_null());
    world.ok(&["route", "pause", "archive", "--reason", "disk full, ticket 4711"]);
    append(&world, "de-7000", "order.placed", "order-7", "globex", "DE");
    until(&world, "mailer", |route| route["delivered"] == 7);
    (world, relay, address)
}

/// A question, the command that answers it, and what the answer must say.
type Question = (&'static str, &'static [&'static str], &'static [&'static str]);

const QUESTIONS: &[Question] = &[
    ("Is it moving now?", &["status"], &["rate", "mailer"]),
    (
        "Since when is the breaker open, when is it tried next?",
        &["route", "show", "partner"],
        &["breaker open", "next try in ", "exec."],
    ),
    (
        "What was in, what was out, over the last hour?",
        &["report", "--since", "1h"],
        &["15 events appended", "| from | appended | delivered | retried | dead | what happened |"],
    ),
    (
        "Did it start with the deploy?",
        &["report", "--since", "1h"],
        &["relay night ", " started", "route.pause archive"],
    ),
    ("Which keys and tenants suffer?", &["dead", "groups", "--route", "mailer"], &["keys", "tenants", "acme"]),
    (
        "Is it one cause or many?",
        &["delivery", "groups", "--route", "mailer"],
        &["order.placed 4, order.changed 2", "no template for ch-", "postroom dead compare --route mailer"],
    ),
    (
        "What do the payloads of one group have in common?",
        &["dead", "compare", "--route", "mailer", "--payload"],
        &[r#"/country "CH" 6 of 6 0 of 8"#],
    ),
    ("Where is my event?", &["event", "show", "ch-1000"], &["mailer", "dead", "no template for ch-1000"]),
    (
        "What of this customer's order is still to come?",
        &["event", "ls", "--key", "order-1"],
        &["delayed", "delivered", "late", "de-1000"],
    ),
    ("Which events are waiting?", &["delivery", "ls"], &["archive order.placed order-7 due", "delayed", "inv-1"]),
    ("Who paused this, when, why?", &["route", "show", "archive"], &["paused", "by ", ": disk full, ticket 4711"]),
    ("Who changed something in the last hour?", &["audit"], &["route.pause", "archive", "disk full, ticket 4711"]),
    ("Which relay holds what, was there a take-over?", &["route", "show", "mailer"], &["held by night"]),
    ("Did we lose anything?", &["verify"], &["nothing"]),
    ("What is wrong with the database?", &["doctor"], &["store"]),
    (
        "What did the night look like, for the morning meeting?",
        &["report"],
        &["# Postroom report: main", "## Routes now", "## Dead letters", "| 6 | mailer | exec.error |", "## Relays"],
    ),
];

#[test]
fn each_of_the_twenty_questions_at_night_has_an_answer() {
    let (world, mut relay, address) = night();
    for (question, command, answer) in QUESTIONS {
        let said = world.run(command);
        let text = format!("{}{}", said.stdout, said.stderr);
        // How wide a column is does not matter.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in *answer {
            assert!(
                words.contains(part),
                "{question}\n`postroom {}` does not say {part:?}:\n{text}",
                command.join(" ")
            );
        }
    }
    // When will the backlog be gone? What is due, divided by the rate; said by `route show` while something moves.
    let partner = world.json(&["route", "show", "partner"]);
    assert!(partner["due"].is_u64() && partner["rate"].is_number(), "{partner}");

    // What is configured for this route right now? The relay that runs says it, with the origin of each setting.
    let token = world.ok(&["token", "create", "night", "--role", "operator"]);
    let header = format!("authorization: Bearer {}", token.trim());
    let config = http::ask(&address, "/api/v1/config", &[&header]).unwrap();
    assert_eq!(config.status, 200, "{}", config.body);
    let settings: Vec<Value> = serde_json::from_str(&config.body).unwrap();
    let retry = settings.iter().find(|setting| setting["key"] == "retry.attempts").unwrap();
    assert!(retry["value"] == "2" && retry["origin"].as_str().unwrap().contains("postroom.toml:7"), "{retry}");

    // How far is the replay, did it help? Was it sent twice?
    world.ok(&["dead", "replay", "ch-1000", "--yes"]);
    until(&world, "mailer", |route| route["dead"] == 6 && route["due"] == 0 && route["retrying"] == 0);
    let replay = world.json(&["replay", "ls"])[0].clone();
    let shown = world.ok(&["replay", "show", replay["id"].as_str().unwrap()]);
    assert!(shown.contains("dead again"), "{shown}");
    world.write("template", "");
    world.ok(&["dead", "replay", "--route", "mailer", "--yes"]);
    until(&world, "mailer", |route| route["delivered"] == 13 && route["dead"] == 0);
    world.ok(&["replay", "ch-1000", "--route", "mailer", "--yes"]);
    until(&world, "mailer", |route| route["delivered"] == 14);
    let event = world.json(&["event", "show", "ch-1000"]);
    let mailer = event["routes"].as_array().unwrap().iter().find(|route| route["route"] == "mailer").unwrap().clone();
    assert_eq!(
        mailer["arrivals"].as_array().unwrap().len(),
        2,
        "it was sent twice, and the timeline says so: {mailer}"
    );
    relay.signal_until_end(Signal::SIGTERM);
}
