//! What goes wrong around the program: configurations, files, schemas, names. Each with its code and its next step.

use std::fs;

use crate::world::World;

/// Runs it and keeps all it said.
fn check(world: &World, args: &[&str], code: i32) -> String {
    let said = world.run(args);
    assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
    assert_eq!(said.stdout, "", "{args:?} printed data although it failed");
    world.snapshot(&said)
}

#[test]
fn a_configuration_that_cannot_be_read_is_2() {
    let world = World::bare();
    let mut all = check(&world, &["status", "--config", "nope.toml"], 2);
    world.write("typo.toml", "[store.main]\nurl = \"sqlite://shop.db\"\n\n[relay]\nleese = \"30s\"\n");
    all.push_str(&check(&world, &["config", "check", "--config", "typo.toml"], 2));
    world.write("unit.toml", "[store.main]\nurl = \"sqlite://shop.db\"\n\n[relay]\nlease = \"30\"\n");
    all.push_str(&check(&world, &["config", "check", "--config", "unit.toml"], 2));
    world.write("empty.toml", "");
    all.push_str(&check(&world, &["event", "ls", "--config", "empty.toml"], 2));
    insta::assert_snapshot!(all);
}

#[test]
fn a_store_that_is_not_there_is_3_and_is_not_made() {
    let world = World::bare();
    let all = check(&world, &["event", "ls"], 3) + &check(&world, &["event", "append", "--type", "t"], 3);
    insta::assert_snapshot!(all);
    assert!(!world.path("shop.db").exists());
}

#[test]
fn a_file_that_is_no_database_is_3_and_stays_as_it_is() {
    let world = World::bare();
    let text = "this is not a database, it only lies where one should be\n".repeat(100);
    world.write("shop.db", &text);
    insta::assert_snapshot!(check(&world, &["event", "ls"], 3));
    world.run(&["store", "migrate", "up"]);
    assert_eq!(fs::read_to_string(world.path("shop.db")).unwrap(), text);
}

#[test]
fn a_database_without_our_tables_is_4_with_the_command_that_makes_them() {
    let world = World::new();
    for _ in 0..2 {
        assert_eq!(world.run(&["store", "migrate", "down", "--yes"]).code, 0);
    }
    let mut all = check(&world, &["event", "ls"], 4);
    all.push_str(&check(&world, &["relay", "run", "--drain"], 4));
    insta::assert_snapshot!(all);
}

#[test]
fn a_schema_newer_than_the_program_is_4_and_is_left_alone() {
    let world = World::new();
    world.sql("update postroom_meta set value = 99 where name = 'schema_version'");
    let mut all = check(&world, &["event", "append", "--type", "t"], 4);
    all.push_str(&check(&world, &["store", "migrate", "up"], 4));
    all.push_str(&check(&world, &["store", "migrate", "down", "--yes"], 4));
    insta::assert_snapshot!(all);
    assert_eq!(world.json(&["store", "migrate", "status"])["version"], 99);
}

#[test]
fn a_file_that_may_only_be_read_can_be_looked_at_and_writing_is_4() {
    let world = World::new();
    world.append("e-1", "order.placed", "o-1");
    let config = fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &config.replace("shop.db\"", "shop.db?mode=ro\""));
    insta::assert_snapshot!(check(&world, &["event", "append", "--type", "t"], 4));
    check(&world, &["route", "pause", "mailer"], 4);
    assert_eq!(world.events(), 1);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let world = World::new();
    world.append("order-7-placed", "order.placed", "order-7");
    let mut all = String::new();
    for args in [
        &["event", "show", "order-7-paced"][..],
        &["route", "show", "mialer"],
        &["route", "pause", "nowhere"],
        &["dead", "ls", "--route", "mailr"],
        &["dead", "replay", "order-7-placd", "--yes"],
        &["replay", "order-8", "--yes"],
        &["dead", "show", "order-7-placed"],
        &["key", "unblock", "order-7"],
        &["inbox", "ls", "--consumer", "nobody"],
        &["inbox", "show", "order-7-placed"],
    ] {
        all.push_str(&format!("## {}\n{}\n", args.join(" "), check(&world, args, 1)));
    }
    all.push_str(&check(&world, &["event", "ls", "--store", "mian"], 2));
    all.push_str(&check(&world, &["relay", "run", "--route", "mialer"], 2));
    insta::assert_snapshot!(all);
}

#[test]
fn wrong_usage_is_2() {
    let world = World::new();
    for args in [
        &["event", "frobnicate"][..],
        &["event", "ls", "--from", "yesterday"],
        &["event", "ls", "--type", "*.placed"],
        &["event", "ls", "--limit", "many"],
        &["replay", "--rate", "fast"],
        &["completions", "tcsh"],
        &["status", "-o", "yaml"],
        &["relay", "run", "--dry-run"],
        &["dev", "--for", "3"],
    ] {
        check(&world, args, 2);
    }
}

#[test]
fn causes_are_told_only_on_request() {
    let world = World::bare();
    world.write("shop.db", &"no database\n".repeat(200));
    let quiet = world.run(&["event", "ls"]).stderr;
    let loud = world.run(&["event", "ls", "-v"]).stderr;
    assert!(!quiet.contains("caused by:") && loud.contains("  caused by: "), "{quiet}\n{loud}");
}

#[test]
fn in_the_wrong_folder_no_command_says_that_all_is_well() {
    let world = World::new();
    let elsewhere = world.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for args in [
        &["status"][..],
        &["doctor"],
        &["config", "check"],
        &["relay", "run", "--drain"],
        &["event", "ls"],
        &["route", "ls"],
        &["verify"],
        &["prune", "--yes"],
    ] {
        let output = world.command(args).current_dir(&elsewhere).output().unwrap();
        let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.status.code(), said.as_ref()), (Some(2), ""), "{args:?}: {told}");
        let first = told.lines().next().unwrap_or_default();
        assert!(first.starts_with("error: no configuration found; looked for postroom.toml, "), "{args:?}: {first}");
        assert!(first.ends_with("/etc/postroom/config.toml"), "{args:?}: {first}");
        assert!(told.contains("hint: name a file with --config"), "{args:?}: {told}");
    }
    let output = world.command(&["check"]).current_dir(&elsewhere).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("UNKNOWN - no configuration found"), "{said}");
}
