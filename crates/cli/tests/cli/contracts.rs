//! Contracts: before an append, before sending, and the commands about their schemas.

#![allow(clippy::unwrap_used, reason = "what cannot be read fails the test")]

use crate::world::World;

const ORDER: &str = r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 1}}}"#;

/// A shop whose configuration has this in front.
fn world(contract: &str) -> World {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let (name, rest) = config.split_once('\n').unwrap();
    world.write("postroom.toml", &format!("{name}\n\n[contract]\n{contract}\n{rest}"));
    world
}

fn inline(keys: &str) -> World {
    world(&format!("{keys}\n[contract.schemas]\n\"order.placed\" = '{ORDER}'\n"))
}

fn append(world: &World, id: &str, payload: &str) -> crate::world::ProgramOutput {
    world.run(&["event", "append", "--id", id, "--type", "order.placed", "--key", "o-1", "--payload", payload])
}

#[test]
fn an_append_that_breaks_its_contract_is_2_and_leaves_nothing() {
    let world = inline("");
    let said = append(&world, "a", r#"{"n": 0, "card": "canary"}"#);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert_eq!(
        said.stderr,
        "error: event of type \"order.placed\" breaks its contract: /n: minimum\n\
         hint: fix the event, or change its schema; `postroom schema ls` shows where it is defined\n"
    );
    let lines = "{\"type\":\"order.placed\",\"payload\":{\"n\":1}}\n\n{\"type\":\"order.placed\",\"payload\":{}}\n";
    let said = world.feed(&["event", "append", "-"], lines);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr.starts_with("error: line 3: event of type \"order.placed\" breaks its contract: /: required n;")
    );
    assert_eq!(world.json(&["event", "ls"]).as_array().unwrap().len(), 0);
    assert_eq!(append(&world, "b", r#"{"n": 1}"#).code, 0);
}

#[test]
fn what_was_appended_past_its_contract_is_a_dead_letter_with_the_path_and_is_not_sent() {
    let world = World::new();
    assert_eq!(append(&world, "old", r#"{"n": 0}"#).code, 0, "before there was a contract");
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{config}\n[contract.schemas]\n\"order.placed\" = '{ORDER}'\n"));
    assert_eq!(append(&world, "new", r#"{"n": 1}"#).code, 0);
    world.ok(&["relay", "run", "--drain"]);
    let dead = world.json(&["dead", "ls"]);
    assert_eq!(dead.as_array().unwrap().len(), 1, "{dead}");
    assert_eq!((&dead[0]["id"], &dead[0]["code"]), (&"old".into(), &"contract.violated".into()));
    let error = dead[0]["error"].as_str().unwrap();
    assert_eq!(error, "event of type \"order.placed\" breaks its contract: /n: minimum");
    // Fixed by a wider contract: it can be sent again.
    world.write(
        "postroom.toml",
        &format!("{config}\n[contract]\nmode = \"warn\"\n[contract.schemas]\n\"order.placed\" = '{ORDER}'\n"),
    );
    world.ok(&["dead", "replay", "--code", "contract.violated", "--yes"]);
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stderr.matches("event violates its schema").count(), 1, "{}", said.stderr);
    assert!(said.stderr.contains("/n: minimum"), "{}", said.stderr);
    assert_eq!(world.json(&["dead", "ls"]).as_array().unwrap().len(), 0);
}

#[test]
fn schemas_are_listed_with_where_they_stand() {
    let world = world("folder = \"schemas\"\nmode = \"warn\"\n[contract.schemas]\n\"order.paid\" = '{}'\n");
    assert_eq!(world.run(&["schema", "ls"]).code, 2, "there is no such folder yet");
    std::fs::create_dir(world.path("schemas")).unwrap();
    world.write("schemas/order.placed@2.json", ORDER);
    assert_eq!(
        world.ok(&["schema", "ls"]),
        "type          version  draft    applies to  mode  from\n\
         order.paid    any      2020-12  payload     warn  postroom.toml:7\n\
         order.placed  2        2020-12  payload     warn  schemas/order.placed@2.json\n"
    );
    let rows = world.json(&["schema", "ls"]);
    assert_eq!(rows[0]["version"], serde_json::Value::Null);
    assert_eq!(
        rows[1],
        serde_json::json!({ "type": "order.placed", "version": 2, "draft": "2020-12", "from": "schemas/order.placed@2.json",
            "mode": "warn", "applies_to": "payload" })
    );
}

#[test]
fn a_schema_is_added_when_it_breaks_nobody_and_refused_with_every_reason_when_it_does() {
    let world = world("folder = \"schemas\"");
    std::fs::create_dir(world.path("schemas")).unwrap();
    world.write("one.json", ORDER);
    let added = world.json(&["schema", "add", "one.json", "--type", "order.placed"]);
    assert_eq!((&added["type"], &added["draft"]), (&"order.placed".into(), &"2020-12".into()));
    assert_eq!(append(&world, "a", r#"{"n": 0}"#).code, 2, "it is in force");

    world.write("wider.json", &ORDER.replace(r#""properties": {"#, r#""properties": {"note": {"type": "string"}, "#));
    world.ok(&["schema", "add", "wider.json", "--type", "order.placed", "--version", "2"]);
    world.write(
        "broken.json",
        r#"{"type": "object", "required": ["m"], "properties": {"m": {"type": "integer", "minimum": 1}}}"#,
    );
    let said = world.run(&["schema", "add", "broken.json", "--type", "order.placed", "--version", "3"]);
    assert_eq!((said.code, said.stdout.as_str()), (4, ""));
    assert_eq!(
        said.stderr,
        "error: the schema breaks consumers of schemas/order.placed@2.json: /m: newly required\n\
         error: the schema breaks consumers of schemas/order.placed@2.json: /n: no longer required\n\
         error: the schema breaks consumers of schemas/order.placed@2.json: /n: removed; renamed to m?\n\
         error: the schema breaks consumers of schemas/order.placed@2.json: /note: removed\n\
         hint: add optional fields only, or introduce a new event type and move consumers to it\n"
    );
    assert_eq!(world.run(&["schema", "add", "wider.json", "--type", "order.placed", "--dry-run"]).code, 0);
    assert_eq!(std::fs::read_to_string(world.path("schemas/order.placed.json")).unwrap(), ORDER);
    let mut files: Vec<_> = std::fs::read_dir(world.path("schemas")).unwrap().map(|f| f.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["order.placed.json", "order.placed@2.json"], "no drafts are left behind");

    for (args, what) in [
        (["schema", "add", "one.json", "--type", "a/b"], "cannot be the name of a file"),
        (["schema", "add", "none.json", "--type", "x"], "cannot read none.json"),
        (["schema", "add", "postroom.toml", "--type", "x"], "postroom.toml is not a JSON Schema: it is not JSON"),
    ] {
        let said = world.run(&args);
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(what), "{}", said.stderr);
    }
    assert_eq!(World::new().run(&["schema", "add", "one.json", "--type", "x"]).code, 2, "no folder is configured");
}

#[test]
fn a_schema_of_the_configuration_is_not_written_beside() {
    let world = inline("folder = \"schemas\"");
    std::fs::create_dir(world.path("schemas")).unwrap();
    world.write("one.json", ORDER);
    let said = world.run(&["schema", "add", "one.json", "--type", "order.placed"]);
    assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{}", said.stderr);
    assert!(said.stderr.contains("is defined in postroom.toml:"), "{}", said.stderr);
}

#[test]
fn two_schemas_are_compared_without_a_configuration() {
    let world = World::bare();
    world.write("old.json", ORDER);
    world.write("new.json", &ORDER.replace(r#""minimum": 1"#, r#""minimum": 5"#));
    assert_eq!(world.ok(&["schema", "check", "old.json", "old.json"]), "old.json only adds optional fields\n");
    let said = world.run(&["schema", "check", "old.json", "new.json"]);
    assert_eq!(said.code, 7);
    assert_eq!(said.stdout, "new.json breaks consumers of old.json in 1 place\n  /n: minimum changed from 1 to 5\n");
    let said = world.run(&["schema", "check", "old.json", "new.json", "-o", "json"]);
    assert_eq!(said.code, 7);
    let answer: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((&answer["compatible"], &answer["differences"][0]["path"]), (&false.into(), &"/n".into()));
    assert_eq!(world.run(&["schema", "check", "old.json", "none.json"]).code, 2);
}
