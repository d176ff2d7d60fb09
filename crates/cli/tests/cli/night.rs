//! What an operator asks at night: since when, why, what next, and whether the numbers are true.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what does not come fails the test")]

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

#[cfg(feature = "postgres")]
use crate::http;
use crate::world::{Running, World, account};

/// A handler that keeps the ids it accepted in `got`, refuses each id once, and is down unless `up` is there.
const HANDLER: &str = r#"
[ -e up ] || exit 1
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
  if [ -e "tried-$id" ]; then
    echo "$id" >> got
    printf '{"id":"%s","ok":true}\n' "$id"
  else
    : > "tried-$id"
    printf '{"id":"%s","error":"greylisted"}\n' "$id"
  fi
done
"#;

/// A shop whose mailer is down until `up` is there.
fn shop() -> World {
    let world = World::bare();
    world.write("handler.sh", HANDLER);
    world.write("postroom.toml", &config("mailer", ""));
    world.ok(&["store", "migrate", "up"]);
    world
}

fn config(route: &str, more: &str) -> String {
    format!(
        "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n[retry]\nbase = \"1ms\"\n\
         [[route]]\nname = \"{route}\"\nmatch = [\"order.*\"]\n{more}\
         breaker = {{ cooldown = \"10m\", cooldown_max = \"1h\" }}\nto = {{ exec = {{ command = [\"sh\", \"handler.sh\"] }} }}\n"
    )
}

fn relay(world: &World) -> Running {
    let mut command = world.command(&["relay", "run"]);
    command.stderr(fs::File::options().create(true).append(true).open(world.path("log")).unwrap());
    Running::start(command)
}

/// Waits until the only route is so.
fn until(world: &World, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_mins(5);
    loop {
        let route = world.json(&["status"])["routes"][0].clone();
        if so(&route) {
            return route;
        }
        assert!(Instant::now() < deadline, "not {what}: {route}");
    }
}

fn lines(world: &World, file: &str) -> u64 {
    fs::read_to_string(world.path(file)).map_or(0, |text| text.lines().count() as u64)
}

#[test]
fn what_stands_under_delivered_is_what_the_destination_got_replays_and_retries_included() {
    let world = shop();
    world.write("up", "");
    for n in 0..20 {
        world.append(&format!("e-{n}"), "order.placed", &format!("k-{}", n % 4));
    }
    let drain = || assert_eq!(world.run(&["relay", "run", "--drain"]).code, 0);
    let agrees = |expected: u64| {
        let detail = world.json(&["route", "show", "mailer"]);
        assert_eq!((lines(&world, "got"), &detail["delivered"]), (expected, &expected.into()), "{detail}");
        let minutes: u64 =
            detail["throughput"].as_array().unwrap().iter().map(|row| row["delivered"].as_u64().unwrap()).sum();
        assert_eq!(minutes, expected, "minute by minute: {detail}");
    };
    drain();
    agrees(20);
    let replayed = world.json(&["replay", "--key", "k-1", "--yes", "--reason", "partner lost data"]);
    assert_eq!(replayed["state"], "delivering", "nobody has delivered them yet");
    drain();
    agrees(25);
    let id = replayed["replay"].as_str().unwrap();
    let row = world.json(&["replay", "show", id, "--watch"]);
    assert_eq!(
        (&row["state"], &row["delivered"], &row["pending"], &row["dead"]),
        (&"done".into(), &5.into(), &0.into(), &0.into())
    );
    let story = world.ok(&["event", "show", "e-1"]);
    assert_eq!(story.matches("✓ delivered").count(), 2, "{story}");
    assert!(
        story.contains(&format!("↻ replay {id} by {}@", account())) && story.contains(": partner lost data"),
        "{story}"
    );
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn an_open_breaker_says_since_when_why_and_when_it_is_tried_next_and_can_be_tried_now() {
    let world = shop();
    world.append("e-1", "order.placed", "k");
    let mut relay = relay(&world);
    let open = until(&world, "open", |route| route["state"] == "breaker_open" && !route["next_try"].is_null());
    assert!(!open["since"].is_null() && open["message"].as_str().unwrap().starts_with("exec."), "{open}");
    let said = world.ok(&["route", "resume", "mailer"]);
    assert!(
        said.contains("is not paused; it is breaker open for ") && said.contains("postroom route probe mailer"),
        "{said}"
    );
    let table = world.ok(&["status"]);
    assert!(table.contains("next try in 9m"), "{table}");
    let failed = world.run(&["route", "probe", "mailer"]);
    assert!(
        failed.code == 1 && failed.stdout.contains("route mailer is still breaker open: for "),
        "{} {}",
        failed.stdout,
        failed.stderr
    );
    assert_eq!(until(&world, "open", |route| route["state"] == "breaker_open")["since"], open["since"], "one outage");
    world.write("up", "");
    assert!(world.ok(&["route", "probe", "mailer"]).contains("is running again"));
    until(&world, "delivered", |route| route["delivered"] == 1);
    let running = world.run(&["route", "probe", "mailer"]);
    assert!(running.code == 1 && running.stderr.contains("its breaker is not open"), "{}", running.stderr);
    relay.signal_until_end(Signal::SIGTERM);
}

#[test]
fn the_rate_is_of_the_last_seconds_and_the_mean_is_named_as_such() {
    let world = shop();
    world.write("up", "");
    world.append("e-1", "order.placed", "k");
    let mut relay = relay(&world);
    let busy = until(&world, "counted", |route| route["rate"].as_f64() > Some(0.0));
    assert!(busy["rate_1m"].as_f64().is_some(), "{busy}");
    // The mean of a minute still has it when the last seconds have nothing.
    let idle = until(&world, "idle", |route| route["rate"] == 0.0);
    assert!(idle["rate_1m"].as_f64() > Some(0.0) || idle["delivered"] == 1, "{idle}");
    relay.signal_until_end(Signal::SIGTERM);
}

#[test]
fn a_pause_says_who_when_and_why_and_is_a_warning_while_something_is_due() {
    let world = shop();
    world.ok(&["route", "pause", "mailer", "--reason", "vendor asked"]);
    assert_eq!(world.run(&["check"]).code, 0);
    world.append("e-1", "order.placed", "k");
    let table = world.ok(&["status"]);
    assert!(
        table.contains(&format!("paused by {}@", account()))
            && table.contains(": vendor asked")
            && table.contains("for 0."),
        "{table}"
    );
    let shown = world.ok(&["route", "show", "mailer"]);
    assert!(shown.contains("\n  paused          2"), "{shown}");
    let story = world.ok(&["event", "show", "e-1"]);
    assert!(story.contains("due now, but the route is paused for ") && story.contains(": vendor asked"), "{story}");
    let check = world.run(&["check"]);
    assert!(check.code == 1 && check.stdout.starts_with("WARNING - mailer paused with 1 due"), "{}", check.stdout);
    world.sql("update postroom_route set paused_at = paused_at - 7200000000");
    let doctor = world.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("doctor.route_paused") && doctor.stdout.contains("vendor asked"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn what_is_not_known_is_null_and_no_zero() {
    let world = World::bare();
    world.write(
        "postroom.toml",
        "name = \"test\"\n[store.main]\nurl = \"sqlite://no/such/folder/shop.db\"\n[[route]]\nname = \"out\"\nto = { stdout = {} }\n",
    );
    let said = world.run(&["status", "-o", "json"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    let status: Value = serde_json::from_str(&said.stdout).unwrap();
    for number in ["due", "oldest_due_seconds", "rate", "rate_1m", "delivered", "retrying", "blocked_keys", "dead"] {
        assert!(status["routes"][0][number].is_null(), "{number}: {status}");
    }
    for number in ["events", "unmatched", "schema_version"] {
        assert!(status["stores"][0][number].is_null(), "{number}: {status}");
    }
    let table = world.run(&["status"]).stdout;
    let cells: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().skip(2).take(8).collect();
    assert_eq!(cells, ["down", "–", "–", "–", "–", "–", "–", "–"], "{table}");
    assert!(world.run(&["check"]).stdout.contains("'out'=U;"), "{}", world.run(&["check"]).stdout);
}

#[test]
fn a_renamed_route_is_refused_until_it_is_renamed_in_the_store() {
    let world = shop();
    world.write("up", "");
    for n in 0..3 {
        world.append(&format!("e-{n}"), "order.placed", "k");
    }
    world.write("postroom.toml", &config("mails", ""));
    for command in [&["relay", "run", "--drain"][..], &["store", "migrate", "up"]] {
        let said = world.run(command);
        assert_eq!(said.code, 4, "{}", said.stderr);
        for part in
            ["route mails is new", "looks like route mailer renamed", "(3 due)", "postroom route rename mailer mails"]
        {
            assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
        }
    }
    let doctor = world.run(&["doctor"]);
    assert!(doctor.code == 7 && doctor.stdout.contains("postroom route rename mailer mails"), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains("route forget mailer --store"), "forgetting would lose events: {}", doctor.stdout);
    assert!(
        world.ok(&["route", "rename", "mailer", "mails", "--dry-run"]).contains("would rename route mailer to mails")
    );
    world.ok(&["route", "rename", "mailer", "mails", "--yes", "--reason", "plural"]);
    assert_eq!(world.run(&["relay", "run", "--drain"]).code, 0);
    assert_eq!((lines(&world, "got"), world.json(&["status"])["routes"][0]["delivered"].as_u64()), (3, Some(3)));
    assert_eq!(world.run(&["verify"]).code, 0);
    let audit = world.json(&["audit"]);
    let said = (&audit[0]["action"], &audit[0]["subject"], &audit[0]["count"]);
    assert_eq!(said, (&"route.rename".into(), &"mailer to mails".into(), &1.into()));
    let twice = world.run(&["route", "rename", "mailer", "mails", "--yes"]);
    assert!(twice.code == 1 && twice.stderr.contains("mailer"), "{}", twice.stderr);
}

#[test]
fn a_reload_that_renames_a_served_route_says_to_stop_the_relay_first() {
    let world = shop();
    world.append("e-1", "order.placed", "k");
    let mut running = relay(&world);
    until(&world, "failing", |route| route["state"] == "breaker_open");
    world.write("postroom.toml", &config("mails", ""));
    running.signal(Signal::SIGHUP);
    let deadline = Instant::now() + Duration::from_mins(5);
    let log = || fs::read_to_string(world.path("log")).unwrap();
    while !log().contains("configuration not reloaded") {
        assert!(Instant::now() < deadline, "{}", log());
    }
    let log = log();
    let refused = log.lines().find(|line| line.contains("configuration not reloaded")).unwrap();
    let next = "stop the relay first, because it serves the route until then; to rename it: `postroom route rename mailer mails`";
    assert!(refused.contains(next), "{refused}");
    running.signal_until_end(Signal::SIGTERM);
}

#[test]
fn a_renamed_route_is_refused_also_for_events_whose_time_has_not_come() {
    let world = shop();
    world.ok(&["event", "append", "--type", "order.reminder", "--key", "k", "--available-at", "1h"]);
    world.write("postroom.toml", &config("mails", ""));
    let said = world.run(&["relay", "run", "--drain"]);
    assert!(said.code == 4 && said.stderr.contains("undelivered events (1 delayed)"), "{}", said.stderr);
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains("(1 delayed)"), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains("route forget mailer --store"), "forgetting would lose it: {}", doctor.stdout);
}

#[test]
fn a_route_whose_start_is_said_is_a_new_one_and_says_what_it_passes_over() {
    let world = shop();
    world.write("up", "");
    for n in 0..3 {
        world.append(&format!("e-{n}"), "order.placed", "k");
    }
    world.write("postroom.toml", &config("mails", "start = \"now\"\n"));
    let said = world.run(&["store", "migrate", "up"]);
    assert!(said.code == 0 && said.stderr.contains("3 earlier events are not delivered to it"), "{}", said.stderr);
    assert!(
        said.stderr.contains("postroom route forget mails") && said.stderr.contains("start = \"beginning\""),
        "{}",
        said.stderr
    );
    world.write("postroom.toml", &config("third", "start = \"now\"\n"));
    let relay = world.run(&["relay", "run", "--drain"]);
    let told =
        relay.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["earlier"] == 3);
    assert!(told.is_some_and(|line| line["route"] == "third"), "{}", relay.stderr);
}

/// One relay with nothing to do, and its database is restarted: said once that it is away, once that it is back, and nobody else is blamed.
#[cfg(feature = "postgres")]
#[test]
fn a_restart_of_the_database_is_two_lines() {
    use postroom_testbed::{Cluster, ClusterOptions};

    let world = World::bare();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = runtime.block_on(Cluster::start_with(ClusterOptions::default()));
    world.write("handler.sh", HANDLER);
    world.write("up", "");
    let url = format!("url = \"{}\"", cluster.url("postgres"));
    let routes: String = ["a", "b", "c"]
        .map(|name| config(name, "").split("[[route]]").nth(1).unwrap().to_owned())
        .iter()
        .map(|route| format!("[[route]]{route}"))
        .collect();
    world.write("postroom.toml", &format!("name = \"test\"\n[store.main]\n{url}\n[retry]\nbase = \"1ms\"\n{routes}"));
    world.ok(&["store", "migrate", "up"]);
    let address = http::free();
    let mut command = world.command(&["relay", "run", "--listen", &address]);
    command.stderr(fs::File::create(world.path("log")).unwrap()).stdout(Stdio::piped());
    let mut relay = Running::start(command);
    world.append("e-1", "order.placed", "k");
    until(&world, "delivered", |route| route["delivered"] == 1);
    http::until(&address, "/readyz", "ready", |answer| answer.status == 200);
    let log = || fs::read_to_string(world.path("log")).unwrap();
    let deadline = Instant::now() + Duration::from_mins(5);
    // One so short that an idle relay may not miss it.
    runtime.block_on(cluster.stop_fast());
    runtime.block_on(cluster.start_again());
    let back = |log: &str| log.matches("store answers again").count() + log.matches("store was restarted").count();
    while back(&log()) < 1 {
        assert!(Instant::now() < deadline, "{}", log());
    }
    world.append("e-2", "order.placed", "k");
    until(&world, "delivered again", |route| route["delivered"] == 2);
    let missed = log().matches("store does not answer; retrying").count();
    runtime.block_on(cluster.stop_fast());
    // The store is asked for this, whether or not the relay has something to do.
    let away = |answer: &http::Answer| answer.status == 503 && answer.body.contains("store main cannot be reached");
    http::until(&address, "/readyz?verbose", "not ready", away);
    while log().matches("store does not answer; retrying until it does").count() == missed {
        assert!(Instant::now() < deadline, "{}", log());
    }
    runtime.block_on(cluster.start_again());
    while back(&log()) < 2 {
        assert!(Instant::now() < deadline, "{}", log());
    }
    http::until(&address, "/readyz", "ready again", |answer| answer.status == 200);
    world.append("e-3", "order.placed", "k");
    until(&world, "delivered once more", |route| route["delivered"] == 3);
    relay.signal_until_end(Signal::SIGTERM);
    let log = log();
    let told = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let (away, again, short) =
        (told("store does not answer; retrying"), told("store answers again"), told("store was restarted"));
    assert_eq!((away, again + short), (again, 2), "each is told once when it ends, and before if it was missed: {log}");
    assert_eq!((told("another relay"), told("\"level\":\"ERROR\"")), (0, 0), "{log}");
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
    assert_eq!(warnings.len(), away, "one for the store, none for its routes: {warnings:#?}");
}
