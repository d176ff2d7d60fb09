//! Commands that only look: tables for people, the same records as JSON.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::world::{Running, World};

/// Four events: two through, one dead, one waiting behind a dead one.
fn busy() -> World {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.append("b", "order.bad", "o-2");
    world.append("c", "held.bad", "h-1");
    world.append("d", "held.good", "h-1");
    world.ok(&["relay", "run", "--drain"]);
    world
}

#[test]
fn every_list_reads_well_and_has_a_json_form() {
    let world = busy();
    let mut all = String::new();
    for args in [
        &["event", "ls"][..],
        &["event", "ls", "--type", "held.*", "--limit", "1"],
        &["event", "show", "a", "--payload"],
        &["event", "show", "b"],
        &["event", "show", "d"],
        &["event", "tail", "--follow=false"],
        &["status"],
        &["route", "ls"],
        &["dead", "ls"],
        &["dead", "show", "b"],
        &["key", "ls", "--blocked"],
        &["inbox", "ls"],
        &["verify"],
        &["store", "migrate", "status"],
        &["config", "check"],
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        all.push_str(&format!("$ postroom {}\n{}\n", args.join(" "), world.snapshot(&said)));
        let mut json = args.to_vec();
        json.extend(["-o", "jsonl"]);
        for line in world.ok(&json).lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value.is_object(), "{args:?} -o jsonl: {line}");
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_version_is_what_a_bug_report_begins_with() {
    let world = World::bare();
    let version = world.json(&["version"]);
    let commit = version["commit"].as_str().unwrap();
    assert!(commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
    assert!(version["features"].as_array().unwrap().contains(&"exec".into()), "{version}");
    let needed = World::new().json(&["store", "migrate", "status"])["needs"].clone();
    assert_eq!(version["schema_versions"]["sqlite"], needed);
    let text = world.ok(&["version"]);
    assert!(text.starts_with("postroom ") && text.contains(&format!("\ncommit    {commit}\n")), "{text}");
}

#[test]
fn json_is_an_array_for_lists_and_an_object_for_one_thing() {
    let world = busy();
    for list in [
        &["event", "ls"][..],
        &["route", "ls"],
        &["dead", "ls"],
        &["key", "ls", "--blocked"],
        &["inbox", "ls"],
        &["verify"],
        &["audit"],
        &["config", "show"],
    ] {
        assert!(world.json(list).is_array(), "{list:?}");
    }
    for one in [
        &["event", "show", "a"][..],
        &["status"],
        &["route", "show", "mailer"],
        &["store", "migrate", "status"],
        &["version"],
    ] {
        assert!(world.json(one).is_object(), "{one:?}");
    }
}

#[test]
fn status_has_the_documented_shape() {
    let world = busy();
    let status = world.json(&["status"]);
    let names = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(names(&status), "relays routes stores");
    let mailer = status["routes"].as_array().unwrap().iter().find(|r| r["route"] == "mailer").unwrap();
    assert_eq!(
        names(mailer),
        "blocked_keys consumers dead delivered due due_estimated message next_try oldest_due_seconds rate rate_1m retrying \
         route since state store to"
    );
    assert_eq!((&mailer["delivered"], &mailer["dead"], &mailer["due"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(status["stores"][0]["reachable"], true);
}

#[test]
fn a_route_nobody_registered_is_new_and_a_store_that_is_gone_is_down() {
    let world = World::new();
    let text = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let more = format!(
        "{text}\n[store.gone]\nurl = \"sqlite://gone.db\"\n\n[[route]]\nname = \"fresh\"\nstore = \"*\"\nto = {{ noop = {{}} }}\n"
    );
    world.write(
        "postroom.toml",
        &more
            .replace("name = \"mailer\"", "name = \"mailer\"\nstore = \"main\"")
            .replace("name = \"held\"", "name = \"held\"\nstore = \"main\""),
    );
    let status = world.json(&["status"]);
    let state = |store: &str, route: &str| {
        let routes = status["routes"].as_array().unwrap();
        routes.iter().find(|r| r["store"] == store && r["route"] == route).map(|r| r["state"].clone())
    };
    assert_eq!(state("main", "fresh"), Some("new".into()));
    assert_eq!(state("gone", "fresh"), Some("down".into()));
    let gone = status["stores"].as_array().unwrap().iter().find(|s| s["store"] == "gone").unwrap();
    assert_eq!(gone["reachable"], false);
    std::fs::remove_file(world.path("shop.db")).unwrap();
    assert_eq!(world.run(&["status"]).code, 3, "no store answers");
}

#[test]
fn acceptances_are_listed_and_stand_in_the_events_story() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.sql("insert into postroom_inbox (consumer, id, accepted_at) values ('search-index', 'a', 1)");
    assert_eq!(world.json(&["inbox", "ls", "--consumer", "search-index"])[0]["id"], "a");
    assert_eq!(world.json(&["inbox", "show", "a"])[0]["consumer"], "search-index");
    assert!(world.ok(&["event", "show", "a"]).contains("accepted by search-index"));
    let unknown = world.run(&["inbox", "ls", "--consumer", "search-indx"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""));
    assert!(unknown.stderr.contains("did you mean \"search-index\"?"), "{}", unknown.stderr);
}

#[test]
fn audit_ends_with_7_when_the_counts_differ() {
    let world = busy();
    let said = world.ok(&["verify"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[0], lines.len()), ("nothing is missing: 2 routes, 4 events", 4), "{said}");
    assert!(world.ok(&["verify", "--lanes"]).lines().nth(1).unwrap().contains("recovered"));
    assert!(world.ok(&["verify", "--help"]).contains("parked, those that had to wait"));
    // What nobody may do: a row of the log goes that every route has counted.
    world.sql("delete from postroom_log where seq = 1");
    let said = world.run(&["verify"]);
    assert_eq!(said.code, 7, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.starts_with("events may be missing: the counts of held, mailer differ"), "{}", said.stdout);
    assert!(said.stdout.contains("3 rows up to the position, but base + seen = 4"), "{}", said.stdout);
    assert!(world.run(&["verify", "--lanes"]).stdout.contains("rows up to the position"));
}

#[test]
fn tail_prints_what_is_appended_while_it_waits_and_stops_at_once() {
    let world = World::new();
    world.append("before", "order.placed", "o-1");
    let mut tail = Running::start(world.command(&["event", "tail", "--lines", "1", "-o", "jsonl"]));
    assert!(tail.wait_for("before").contains("\"type\":\"order.placed\""));
    world.append("after", "order.paid", "o-1");
    assert!(tail.wait_for("after").contains("\"type\":\"order.paid\""));
    tail.signal(Signal::SIGINT);
    assert_eq!(tail.end(), (Some(0), String::new()));
}

#[test]
fn watching_draws_again_until_interrupted() {
    let world = World::new();
    let mut watch = Running::start(world.command(&["status", "--watch"]));
    watch.wait_for("mailer");
    world.ok(&["route", "pause", "mailer"]);
    watch.wait_for("paused");
    watch.signal(Signal::SIGTERM);
    assert_eq!(watch.end().0, Some(0));
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let world = World::new();
    let lines: String = (0..2000).map(|n| format!("{{\"type\":\"t\",\"id\":\"{n}\"}}\n")).collect();
    assert_eq!(world.feed(&["event", "append", "-"], &lines).code, 0);
    let mut child = world.command(&["event", "ls", "--limit", "2000", "-o", "jsonl"]).spawn().unwrap();
    drop(child.stdout.take());
    let said = child.wait_with_output().unwrap();
    assert_eq!((said.status.code(), said.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn the_plan_is_sql_and_changes_nothing() {
    let world = World::new();
    for _ in 0..2 {
        world.ok(&["store", "migrate", "down", "--yes"]);
    }
    let plan = world.ok(&["store", "migrate", "plan"]);
    assert!(plan.contains("create table"), "{plan}");
    assert_eq!(world.json(&["store", "migrate", "status"])["version"], 0);
}

#[test]
fn completions_name_the_commands() {
    let world = World::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(world.ok(&["completions", shell]).contains("skip-head"), "{shell}");
    }
}

#[test]
fn config_is_written_once_and_checks_out() {
    let world = World::bare();
    world.ok(&["config", "init", "--config", "new.toml"]);
    // Everything in it is a comment: a relay would have nothing to do.
    let empty = world.run(&["config", "check", "--config", "new.toml"]);
    assert_eq!(empty.code, 2, "{}", empty.stdout);
    assert!(
        empty.stderr.starts_with("error: new.toml configures no store\nhint: add [store.main]"),
        "{}",
        empty.stderr
    );
    world.write("some.toml", "[store.main]\nurl = \"sqlite://shop.db\"\n");
    let empty = world.run(&["config", "check", "--config", "some.toml"]);
    assert_eq!(empty.code, 2, "{}", empty.stdout);
    assert!(empty.stderr.starts_with("error: no route is configured"), "{}", empty.stderr);
    let again = world.run(&["config", "init", "--config", "new.toml"]);
    assert_eq!(again.code, 4, "{}", again.stderr);
    assert!(world.ok(&["config", "show", "--origin"]).contains("postroom.toml"));
}

#[test]
fn a_monitoring_system_gets_one_line_and_one_code() {
    let world = World::new();
    world.append("late", "order.placed", "order-7");
    let nobody = "WARNING - held orphan, mailer orphan | 'held'=0.000s;3600;7200;0 ";
    for (args, code, says) in [
        (&["check", "--warn", "1h", "--crit", "2h"][..], 1, nobody),
        (&["check", "--warn", "1us", "--crit", "1h", "--route", "mailer"], 1, "WARNING - mailer orphan due for "),
        (&["check", "--warn", "1us", "--crit", "1us"], 2, "CRITICAL - mailer orphan due for "),
        (&["check", "--warn", "2h", "--crit", "1h"], 3, "UNKNOWN - --warn 2h is longer than --crit 1h"),
        (&["check", "--route", "maler"], 3, "UNKNOWN - there is no route \"maler\""),
    ] {
        let said = world.run(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.stdout);
        assert!(said.stdout.starts_with(says), "{args:?}: {}", said.stdout);
    }
    let mut relay = Running::start({
        let mut command = world.command(&["relay", "run"]);
        command.stderr(std::process::Stdio::null());
        command
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(5);
    while !world.run(&["check"]).stdout.starts_with("OK - 2 routes on time | ") {
        assert!(std::time::Instant::now() < deadline, "{}", world.run(&["check"]).stdout);
    }
    relay.signal_until_end(Signal::SIGTERM);
    std::fs::remove_file(world.path("shop.db")).unwrap();
    let gone = world.run(&["check", "-o", "json"]);
    assert_eq!((gone.code, gone.stdout.contains("critical")), (2, true), "{}", gone.stdout);
    world.write("postroom.toml", "nonsense");
    assert_eq!(world.run(&["check"]).code, 3);
}

#[test]
fn dead_letters_are_counted_by_what_they_died_of() {
    let world = World::new();
    for (id, kind, key) in [("a", "order.bad", "o-1"), ("b", "order.bad", "o-2"), ("c", "held.bad", "h-1")] {
        world.append(id, kind, key);
    }
    world.ok(&["relay", "run", "--drain"]);
    let groups = world.json(&["dead", "groups"]);
    assert_eq!(groups.as_array().unwrap().len(), 2, "{groups}");
    assert_eq!(
        (&groups[0]["count"], &groups[0]["keys"], &groups[0]["route"]),
        (&2.into(), &2.into(), &"mailer".into())
    );
    assert_eq!((&groups[0]["code"], &groups[0]["types"]), (&"exec.error".into(), &json!({ "order.bad": 2 })));
    assert_eq!((&groups[0]["sample"], &groups[0]["error"]), (&"b".into(), &"no such address".into()));
    assert_eq!(world.json(&["dead", "groups", "--route", "held"])[0]["count"], 1);
    let table = world.ok(&["dead", "groups"]);
    assert!(table.lines().nth(1).is_some_and(|line| line.contains("no such address")), "{table}");
}

#[test]
fn a_route_shows_what_it_did_in_the_last_hour() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.append("b", "order.bad", "o-2");
    world.ok(&["relay", "run", "--drain"]);
    let shown = world.json(&["route", "show", "mailer"]);
    let sum =
        |what: &str| shown["throughput"].as_array().unwrap().iter().filter_map(|row| row[what].as_u64()).sum::<u64>();
    assert_eq!((sum("delivered"), sum("retried"), sum("dead")), (1, 0, 1), "{shown}");
    let text = world.ok(&["route", "show", "mailer"]);
    assert!(
        text.contains('█') && text.contains("\n                  delivered 1, at most 1 event a minute\n"),
        "{text}"
    );
    assert!(text.contains("\n                  failed 1, at most 1 event a minute\n"), "{text}");
}

#[test]
fn help_is_a_command_too() {
    let world = World::bare();
    assert_eq!(world.ok(&["help"]), world.ok(&["--help"]));
    assert_eq!(world.ok(&["help", "dead", "replay"]), world.ok(&["dead", "replay", "--help"]));
}
