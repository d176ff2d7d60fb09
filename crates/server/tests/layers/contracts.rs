//! `[contract]`: schemas from a folder and from the file, and what they are asked.

use postroom_contracts::{AppliesTo, Mode};
use postroom_core::Event;
use postroom_server::transports;
use serde_json::json;

use crate::layers::case::Case;

const SHOP: &str = "[store.main]\nurl = \"sqlite://shop.db\"\n";

#[test]
fn schemas_come_from_a_folder_and_from_the_file_and_say_where_from() {
    let file = SHOP.to_owned()
        + "[contract]\nfolder = \"schemas\"\nmode = \"warn\"\napplies_to = \"envelope\"\n[contract.schemas]\n\
           \"order.paid\" = '''\n{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"pattern\": \"^[A-Z]{3}$\"}\n'''\n";
    let config = Case::new()
        .file("postroom.toml", &file)
        .file("schemas/order.placed.json", "{}")
        .file("schemas/order.placed@2.json", "{}")
        .file("schemas/README.md", "not a schema")
        .config();
    let contracts = &config.contract.contracts;
    assert_eq!((contracts.mode(), contracts.applies_to()), (Mode::Warn, AppliesTo::Envelope));
    let rows: Vec<String> = contracts
        .rows()
        .into_iter()
        .map(|row| format!("{} {:?} {} {}", row.event_type, row.version, row.draft, row.from))
        .collect();
    assert_eq!(
        rows,
        [
            "order.paid None draft-07 postroom.toml:8",
            "order.placed None 2020-12 schemas/order.placed.json",
            "order.placed Some(2) 2020-12 schemas/order.placed@2.json",
        ]
    );
}

#[test]
fn a_file_of_the_folder_that_is_no_schema_or_has_no_name_is_named() {
    let file = SHOP.to_owned() + "[contract]\nfolder = \"schemas\"\n[contract.schemas]\n\"a\" = \"{}\"\n";
    let error = Case::new()
        .file("postroom.toml", &file)
        .file("schemas/a.json", "{}")
        .file("schemas/b.json", "{\"type\": 7}")
        .file("schemas/c@x.json", "{}")
        .error();
    for part in [
        "the schema schemas/b.json cannot be used: it is broken at /type: ",
        "the name of schemas/c@x.json is of no type and version",
        "there are two schemas of `a`; the other one is schemas/a.json",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn without_contracts_everything_passes_and_with_them_appends_are_judged_by_what_would_be_sent() {
    let schema = "[contract.schemas]\nPaid = '{\"required\": [\"event_id\"]}'\n";
    let route = |envelope: &str| {
        format!("[[route]]\nname = \"mailer\"\nmatch = [\"Paid\"]\nto = {{ stdout = {{}} }}\nenvelope = {envelope}\n")
    };
    let named = "{ fields = { event_id = \"id\", data = \"payload\" } }";
    let event = Event::new("Paid").json(&json!({ "total": 7 })).unwrap();
    let judged = |file: String| {
        let config = Case::new().file("postroom.toml", &(SHOP.to_owned() + &file)).config();
        transports::check(&config, &config.stores[0], &event).map_err(|error| error.to_string())
    };
    assert_eq!(judged(route(named)), Ok(()));
    let said = Err("event of type \"Paid\" breaks its contract: /: required event_id".to_owned());
    assert_eq!(judged(route(named) + schema), said);
    let envelope = format!("[contract]\napplies_to = \"envelope\"\n{schema}");
    assert_eq!(judged(envelope.clone() + &route(named)), Ok(()));
    assert_eq!(judged(envelope.clone() + &route("\"cloudevents-structured\"")), said);
    assert_eq!(judged(envelope), Ok(()), "nobody sends it");
    assert_eq!(judged(format!("[contract]\nmode = \"warn\"\n{schema}")), Ok(()));
}
