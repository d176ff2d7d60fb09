//! Commands that change something: a preview first, a question, an entry in the audit.

use crate::world::{World, account};

fn dead() -> World {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.append("b", "order.bad", "o-2");
    world.append("c", "held.bad", "h-1");
    world.append("d", "held.good", "h-1");
    world.ok(&["relay", "run", "--drain"]);
    world
}

#[test]
fn what_cannot_be_taken_back_asks_first_and_a_script_is_refused_with_4() {
    let world = dead();
    let before = world.routes();
    let mut all = String::new();
    for args in [
        &["dead", "replay", "b"][..],
        &["dead", "discard", "--route", "mailer"],
        &["replay", "--route", "mailer", "--type", "order.*"],
        &["key", "skip-head", "h-1"],
        &["erase", "--key", "o-1"],
        &["route", "forget", "held"],
        &["store", "migrate", "down"],
    ] {
        let said = world.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{args:?}: {}", said.stderr);
        all.push_str(&format!("$ postroom {}\n{}\n", args.join(" "), world.snapshot(&said)));
        let mut dry = args.to_vec();
        dry.push("--dry-run");
        let said = world.run(&dry);
        assert_eq!(said.code, 0, "{dry:?}: {}", said.stderr);
        all.push_str(&format!("$ postroom {}\n{}\n", dry.join(" "), world.snapshot(&said)));
    }
    insta::assert_snapshot!(all);
    assert_eq!(world.routes(), before, "nothing was changed");
}

/// `postroom replay $ID` with an empty variable.
#[test]
fn without_an_id_or_a_filter_nothing_is_selected() {
    let world = dead();
    let before = world.routes();
    for command in [&["replay"][..], &["dead", "replay"], &["dead", "discard"]] {
        for more in [&["--yes"][..], &["--dry-run"], &["--yes", "--confirm", "1"]] {
            let said = world.run(&[command, more].concat());
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{command:?} {more:?}: {}", said.stderr);
            assert!(
                said.stderr.contains("no deliveries are selected") && said.stderr.contains("--all"),
                "{}",
                said.stderr
            );
        }
    }
    let empty = world.run(&["replay", "", "--yes"]);
    assert_ne!(empty.code, 0, "an empty id is no id: {}", empty.stdout);
    assert_eq!(world.routes(), before, "nothing was changed");
    assert_eq!(world.json(&["dead", "replay", "--all", "--dry-run"])["deliveries"], 2);
}

#[test]
fn a_yes_covers_a_thousand_and_more_need_the_count() {
    let world = World::new();
    let line = |n: usize| format!("{{\"type\":\"order.bad\",\"key\":\"k-{n}\",\"payload\":1}}\n");
    let said = world.feed(&["event", "append", "-"], &(0..1_001).map(line).collect::<String>());
    assert_eq!(said.code, 0, "{}", said.stderr);
    world.ok(&["relay", "run", "--drain"]);
    for (more, message) in [
        (&["--yes"][..], "--confirm 1001"),
        (&["--yes", "--confirm", "1000"], "--confirm is 1000, but 1001 are affected"),
        (&["--confirm", "1002"], "--confirm is 1002, but 1001 are affected"),
    ] {
        let said = world.run(&[&["dead", "discard", "--route", "mailer"], more].concat());
        assert_eq!(said.code, 4, "{more:?}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{more:?}: {}", said.stderr);
    }
    let done = world.json(&["dead", "discard", "--route", "mailer", "--confirm", "1001"]);
    assert_eq!(done["deliveries"], 1001);
}

#[test]
fn a_replayed_dead_letter_is_due_again_and_the_audit_knows_who_and_why() {
    let world = dead();
    let done = world.json(&["dead", "replay", "b", "--yes", "--reason", "address fixed"]);
    assert_eq!(done["deliveries"], 1);
    assert!(world.json(&["dead", "ls", "--route", "mailer"]).as_array().unwrap().is_empty());
    let action = &world.json(&["audit"])[0];
    assert_eq!((&action["action"], &action["reason"]), (&"dead.replay".into(), &"address fixed".into()));
    assert!(action["actor"].as_str().unwrap().starts_with(&format!("{}@", account())), "{action}");
}

#[test]
fn a_discarded_dead_letter_is_gone_and_the_counts_still_agree() {
    let world = dead();
    world.ok(&["dead", "discard", "b", "--yes"]);
    assert!(world.json(&["dead", "ls", "--route", "mailer"]).as_array().unwrap().is_empty());
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn erased_payloads_are_gone_and_their_events_stay() {
    let world = dead();
    let refused = world.run(&["erase", "--key", "h-1", "--yes"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (4, ""), "one of its events waits: {}", refused.stderr);
    assert!(refused.stderr.contains("1 of 2 events of key \"h-1\" are not delivered yet"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--undelivered"), "{}", refused.stderr);
    let asked = world.run(&["erase", "--key", "o-1"]);
    assert_eq!((asked.code, asked.stdout.as_str()), (4, ""), "{}", asked.stderr);
    let preview = world.json(&["erase", "--key", "o-2", "--dry-run"]);
    assert_eq!((&preview["events"], &preview["dead_letters"]), (&1.into(), &1.into()), "{preview}");
    assert_eq!(world.json(&["erase", "--key", "o-2", "--yes", "--reason", "request 4711"]), preview);
    assert_eq!(world.ok(&["erase", "--key", "o-2", "--yes"]), "nothing to erase: the log has no payload of key o-2\n");
    let event = world.json(&["event", "show", "b", "--payload"]);
    assert!(event["payload"].is_null(), "{event}");
    assert!(event["headers"]["postroom-erased"].is_string(), "{event}");
    assert_eq!(event["headers"].as_object().unwrap().len(), 1, "{event}");
    // After it the payload was asked for.
    let action = &world.json(&["audit"])[1];
    let said = (&action["action"], &action["subject"], &action["count"], &action["reason"]);
    assert_eq!(said, (&"key.erase".into(), &"o-2".into(), &1.into(), &"request 4711".into()));
    assert_eq!(world.run(&["verify"]).code, 0);
    assert_eq!(world.json(&["erase", "--key", "h-1", "--undelivered", "--yes"])["events"], 2);
}

#[test]
fn erased_payloads_are_not_in_the_file_either() {
    let world = World::new();
    let size = |n: usize| if n == 7 { 20_000 } else { 30 };
    let lines: Vec<String> = (0..60)
        .map(|n| {
            let (key, text) = if n % 2 == 0 { ("gone", "canary") } else { ("kept", "others") };
            format!(r#"{{"type":"order.placed","key":"{key}","payload":"{text}-{n}-{}"}}"#, "x".repeat(size(n / 2)))
        })
        .collect();
    assert_eq!(world.feed(&["event", "append", "-"], &lines.join("\n")).code, 0);
    world.ok(&["relay", "run", "--drain"]);
    let holds = |text: &[u8]| {
        let read = |name: &str| std::fs::read(world.path(name)).unwrap_or_default();
        let files = [read("shop.db"), read("shop.db-wal")].concat();
        files.windows(text.len()).filter(|part| *part == text).count()
    };
    assert!(holds(b"canary-") >= 30);
    assert_eq!(world.json(&["erase", "--key", "gone", "--yes"])["events"], 30);
    assert_eq!(holds(b"canary-"), 0, "overwritten, not only out of reach");
    assert!(holds(b"others-") >= 30);
}

#[test]
fn a_settled_event_is_sent_again_on_request() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(world.json(&["replay", "a", "--yes"])["deliveries"], 1);
    assert_eq!(world.json(&["status"])["routes"].as_array().unwrap().iter().filter(|r| r["due"] == 1).count(), 1);
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn a_held_key_goes_on_when_its_head_is_skipped_or_it_is_unblocked() {
    for act in [&["key", "skip-head", "h-1", "--yes"][..], &["key", "unblock", "h-1", "--route", "held"]] {
        let world = dead();
        assert_eq!(world.json(&["key", "ls", "--blocked"])[0]["waiting"], 1);
        world.ok(act);
        world.ok(&["relay", "run", "--drain"]);
        let held = &world.json(&["event", "show", "d"])["routes"];
        let held = held.as_array().unwrap().iter().find(|r| r["route"] == "held").unwrap();
        assert_eq!(held["state"], "delivered", "{act:?}");
        assert!(world.json(&["key", "ls", "--blocked"]).as_array().unwrap().is_empty());
    }
}

#[test]
fn a_paused_route_waits_and_a_resumed_one_goes_on() {
    let world = World::new();
    assert_eq!(world.ok(&["route", "pause", "mailer", "--reason", "moving"]), "route mailer is paused\n");
    assert_eq!(world.ok(&["route", "pause", "mailer"]), "route mailer is already paused\n");
    world.append("a", "order.placed", "o-1");
    world.ok(&["relay", "run", "--drain"]);
    let detail = world.json(&["route", "show", "mailer"]);
    assert_eq!((&detail["state"], &detail["delivered"]), (&"paused".into(), &0.into()));
    assert!(detail["paused_by"].as_str().unwrap().starts_with(&format!("{}@", account())), "{detail}");
    world.ok(&["route", "resume", "mailer"]);
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(world.json(&["route", "show", "mailer"])["delivered"], 1);
}

#[test]
fn a_forgotten_route_is_gone() {
    let world = dead();
    world.ok(&["route", "forget", "held", "--yes"]);
    let routes = world.json(&["route", "ls"]);
    let held = routes.as_array().unwrap().iter().find(|r| r["route"] == "held").unwrap();
    assert_eq!(held["state"], "new", "still configured");
}

/// One event that was delivered long ago.
fn old() -> World {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    world.ok(&["relay", "run", "--drain"]);
    world.sql("update postroom_log set appended_at = 1, occurred_at = 1");
    world
}

#[test]
fn what_is_older_than_the_inbox_remembers_is_replayed_only_by_name() {
    let world = old();
    let said = world.run(&["replay", "a", "--yes"]);
    assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{}", said.stderr);
    assert!(said.stderr.contains("--allow-duplicates"), "{}", said.stderr);
    assert_eq!(world.json(&["replay", "a", "--yes", "--allow-duplicates"])["deliveries"], 1);
}

#[test]
fn pruning_shows_what_goes_and_takes_only_that() {
    let world = old();
    world.append("b", "order.placed", "o-2");
    assert_eq!(world.run(&["prune"]).code, 4);
    assert_eq!(world.json(&["prune", "--dry-run"])["events"], 1);
    assert_eq!(world.events(), 2);
    assert_eq!(world.json(&["prune", "--yes"])["events"], 1);
    assert_eq!(world.events(), 1);
    assert_eq!(world.run(&["verify"]).code, 0, "the counts know what was pruned");
}

#[test]
fn pruning_nothing_says_so_and_asks_nobody() {
    let world = World::new();
    let said = world.run(&["prune"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "nothing is old enough to be removed\n"));
}

#[test]
fn migrating_twice_changes_nothing_and_registers_new_routes() {
    let world = World::bare();
    let first = world.json(&["store", "migrate", "up"]);
    assert_eq!(first["registered"].as_array().unwrap().len(), 2);
    let second = world.json(&["store", "migrate", "up"]);
    assert!(second["applied"].as_array().unwrap().is_empty() && second["registered"].as_array().unwrap().is_empty());
}

#[test]
fn an_acceptance_is_forgotten_only_when_confirmed() {
    let world = World::new();
    world.sql("insert into postroom_inbox (consumer, id) values ('mailer', 'a'), ('search', 'a')");
    let forget = ["inbox", "forget", "a", "--consumer", "mailer"];
    let said = world.run(&forget);
    assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{}", said.stderr);
    assert!(said.stderr.contains("processes the event again on its next delivery"), "{}", said.stderr);
    assert_eq!(world.json(&[&forget[..], &["--dry-run"]].concat())["forgotten"], false);
    assert_eq!(world.json(&["inbox", "show", "a"]).as_array().unwrap().len(), 2);
    assert_eq!(world.json(&[&forget[..], &["--yes", "--reason", "lost"]].concat())["forgotten"], true);
    assert_eq!(world.json(&["inbox", "show", "a"])[0]["consumer"], "search");
    let action = &world.json(&["audit"])[0];
    assert_eq!((&action["action"], &action["subject"]), (&"inbox.forget".into(), &"mailer a".into()));
    let said = world.run(&[&forget[..], &["--yes"]].concat());
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("search"), "{}", said.stderr);
    assert_eq!(world.run(&["inbox", "forget", "b", "--consumer", "mailer", "--yes"]).code, 1);
}

#[test]
fn an_append_that_nobody_wants_or_with_an_id_used_before_is_noted() {
    let world = World::new();
    let append = |more: &[&str]| world.run(&[&["event", "append", "--payload", "1"], more].concat());
    let fine = append(&["--type", "order.placed", "--id", "dup"]);
    assert_eq!((fine.code, fine.stdout.as_str(), fine.stderr.as_str()), (0, "dup\n", ""));
    let again = append(&["--type", "order.placed", "--id", "dup"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "dup\n"));
    assert!(again.stderr.contains("id dup was appended before, at position 1"), "{}", again.stderr);
    let unwanted = append(&["--type", "other.thing"]);
    assert_eq!(unwanted.code, 0);
    assert!(unwanted.stderr.contains("no route matches this event of type other.thing"), "{}", unwanted.stderr);
    let json = append(&["--type", "other.thing", "-o", "json"]);
    assert_eq!((json.code, json.stderr.as_str()), (0, ""), "a script is not told");
}

#[test]
fn an_append_of_many_notes_ids_used_before_and_events_that_nobody_wants() {
    let world = World::new();
    let append = |lines: &str| world.feed(&["event", "append", "-"], lines);
    let line = |kind: &str, id: &str| format!("{{\"type\":\"{kind}\",\"id\":\"{id}\"}}\n");
    let first = append(&(line("order.placed", "a") + &line("order.placed", "b") + "{\"type\":\"order.paid\"}\n"));
    assert_eq!((first.code, first.stderr.as_str()), (0, ""), "{}", first.stdout);
    let lines = ["a", "b", "c", "c"].map(|id| line("order.placed", id)).concat()
        + &line("other.thing", "d")
        + &line("x.y", "e");
    let again = append(&lines);
    assert_eq!((again.code, again.stdout.as_str()), (0, "a\nb\nc\nc\nd\ne\n"), "{}", again.stderr);
    for note in [
        "2 of these ids were appended before (a, b): both events of each are delivered",
        "1 id is given more than once here (c): every one of these events is delivered",
        "no route matches 2 of 6 events (other.thing, x.y): they are kept, and delivered to nobody",
    ] {
        assert!(again.stderr.contains(note), "{note}\n{}", again.stderr);
    }
    let script = world.feed(&["event", "append", "-", "-o", "json"], &line("other.thing", "a"));
    assert_eq!((script.code, script.stderr.as_str()), (0, ""), "a script is not told");
}

#[test]
fn the_actor_is_the_account_whatever_the_environment_says() {
    let world = dead();
    let pause = |variables: &[(&str, &str)]| {
        let mut command = world.command(&["route", "pause", "mailer"]);
        command.envs([("USER", "mallory"), ("LOGNAME", "mallory")]).env_remove("SUDO_USER");
        assert!(command.envs(variables.iter().copied()).output().unwrap().status.success());
        world.ok(&["route", "resume", "mailer"]);
        world.json(&["audit"])[1]["actor"].as_str().unwrap().to_owned()
    };
    let actor = pause(&[]);
    assert!(actor.starts_with(&format!("{}@", account())), "{actor}");
    // Only root is believed who called sudo, and it stays beside the account.
    let sudo = if nix::unistd::getuid().is_root() { "bob as " } else { "" };
    let actor = pause(&[("SUDO_USER", "bob")]);
    assert!(actor.starts_with(&format!("{sudo}{}@", account())), "{actor}");
}

#[test]
fn the_first_token_says_what_it_closes() {
    let world = World::new();
    let first = world.run(&["token", "create", "ann", "--role", "viewer"]);
    assert!(first.stderr.contains("requests to its API without a token are refused"), "{}", first.stderr);
    let second = world.run(&["token", "create", "ben", "--role", "viewer"]);
    assert_eq!((second.code, second.stderr.contains("are refused")), (0, false), "{}", second.stderr);
    world.write("open.toml", "[store.main]\nurl = \"sqlite://open.db\"\n[http]\nanonymous = \"viewer\"\n");
    world.ok(&["store", "migrate", "up", "--config", "open.toml"]);
    let open = world.run(&["token", "create", "ann", "--role", "viewer", "--config", "open.toml"]);
    assert_eq!((open.code, open.stderr.contains("are refused")), (0, false), "{}", open.stderr);
}
