//! Ids as people type them: whole, as a prefix, or on stdin.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use crate::world::World;

/// Three dead letters, two of which begin alike, and an event whose id is the beginning of another.
fn world() -> World {
    let world = World::new();
    for id in ["order-1001-a", "order-1001-b", "order-2002-a"] {
        world.append(id, "order.bad", id);
    }
    world.append("invoice-7", "order.placed", "i-7");
    world.append("invoice-77", "order.placed", "i-77");
    world.ok(&["relay", "run", "--drain"]);
    world
}

#[test]
fn a_unique_prefix_is_the_id() {
    let world = world();
    assert_eq!(world.json(&["event", "show", "order-2002"])["id"], "order-2002-a");
    assert_eq!(world.json(&["dead", "show", "order-2002"])["id"], "order-2002-a");
    assert_eq!(world.json(&["dead", "ls", "order-2002"])[0]["id"], "order-2002-a");
    let done = world.run(&["dead", "replay", "order-2002", "--yes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stderr.contains("order-2002 is event order-2002-a"), "{}", done.stderr);
    let replay = world.json(&["replay", "ls"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.json(&["replay", "show", &replay[..13]])["id"], replay.as_str());
    assert_eq!(world.json(&["replay", "show", &format!("{}…", &replay[..13])])["id"], replay.as_str());
    let sent = world.json(&["replay", "invoice-77", "--dry-run"]);
    assert_eq!(sent["deliveries"], 1, "{sent}");
}

#[test]
fn an_exact_id_wins_over_those_that_begin_with_it() {
    let world = world();
    assert_eq!(world.json(&["event", "show", "invoice-7"])["id"], "invoice-7");
}

#[test]
fn an_ambiguous_prefix_is_2_with_the_candidates_and_a_short_one_is_no_prefix() {
    let world = world();
    let before = world.routes();
    for args in [
        &["event", "show", "order-1001"][..],
        &["dead", "show", "order-1001"],
        &["dead", "discard", "order-1001", "--yes"],
        &["replay", "order-1001", "--yes"],
    ] {
        let said = world.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        let candidates = "\"order-1001\" is the beginning of 2 ids: order-1001-a, order-1001-b";
        assert!(said.stderr.contains(candidates), "{args:?}: {}", said.stderr);
    }
    let short = world.run(&["event", "show", "order-2"]);
    assert_eq!(short.code, 1, "{}", short.stderr);
    assert!(short.stderr.contains("did you mean"), "{}", short.stderr);
    assert_eq!(world.routes(), before, "nothing was changed");
}

#[test]
fn an_id_that_postroom_made_is_found_by_its_time_however_many_came_later() {
    let world = World::new();
    let old = world.ok(&["event", "append", "--type", "order.placed"]);
    // The next ids begin with a later time, however fast the machine is.
    let many: String =
        (0..10_100).map(|n| format!("{{\"type\":\"order.placed\",\"id\":\"later-{n:05}\"}}\n")).collect();
    assert_eq!(world.feed(&["event", "append", "-"], &many).code, 0);
    assert_eq!(world.json(&["event", "show", &old[..18]])["id"], old.trim());
}

#[test]
fn accepted_ids_have_prefixes_too() {
    let world = world();
    world.sql(
        "insert into postroom_inbox (consumer, id, accepted_at) values \
         ('search', 'order-1001-a', 1), ('books', 'order-2002-a', 1), ('search', 'order-2002-a', 1)",
    );
    let found = world.json(&["inbox", "show", "order-2002"]);
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    assert_eq!(world.json(&["inbox", "show", "order-1001"])[0]["id"], "order-1001-a", "only what was accepted counts");
    world.ok(&["inbox", "forget", "order-2002", "--consumer", "books", "--yes"]);
    assert_eq!(world.json(&["inbox", "show", "order-2002-a"])[0]["consumer"], "search");
}

#[test]
fn ids_come_from_stdin_one_per_line_and_none_is_an_error() {
    let world = world();
    let preview = world.feed(&["dead", "replay", "-", "--dry-run", "-o", "json"], "order-1001-a\n\n  order-2002  \n");
    assert_eq!(preview.code, 0, "{}", preview.stderr);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&preview.stdout).unwrap()["deliveries"], 2);
    for args in [&["dead", "replay", "-", "--yes"][..], &["dead", "discard", "-", "--yes"], &["replay", "-", "--yes"]] {
        for nothing in ["", "\n \n"] {
            let said = world.feed(args, nothing);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
            assert!(said.stderr.contains("no ids on stdin"), "{args:?}: {}", said.stderr);
        }
    }
    let done = world.feed(&["dead", "discard", "-", "--yes"], "order-1001-a\norder-1001-b\n");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(world.json(&["dead", "ls"]).as_array().unwrap().len(), 1);
}
