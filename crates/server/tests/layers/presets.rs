//! Presets lie under the file: key by key, routes by name.

use postroom_server::config::PRESETS;

use crate::layers::case::{Case, origin};

fn with(preset: &str) -> Case {
    let commands = ["M4", "EVENTQUEUE"].map(|route| format!("POSTROOM_ROUTE__{route}__TO__EXEC__COMMAND"));
    let case = Case::new().preset(preset).env("DATABASE_URL", "postgres://db/shop");
    match commands.iter().find(|name| name.contains(&preset.to_uppercase())) {
        Some(name) => case.env(name, r#"["handlers"]"#),
        None => case,
    }
}

#[test]
fn every_preset_is_a_configuration_with_one_route_of_its_name() {
    for preset in PRESETS {
        let config = with(preset.name).config();
        let routes: Vec<&str> = config.routes.iter().map(|route| route.definition.name.as_str()).collect();
        assert_eq!(routes, [preset.name]);
        assert!(!preset.about().is_empty() && preset.ddl().starts_with("create table"), "{}", preset.name);
        assert!(config.stores[0].mapping.is_some() && config.stores[0].name == "main");
    }
}

#[test]
fn a_file_goes_over_the_preset_and_variables_over_both() {
    let file = "[[route]]\nname = 'payments'\n[route.retry]\nattempts = 7\n[[route]]\nname = 'other'\nstore = 'b'\nto = { stdout = {} }\n[store.b]\nurl = 'sqlite://b.db'\n";
    let case = with("payments").file("mine.toml", file).named("mine.toml").env("POSTROOM_RELAY__TAKE__ROWS", "50");
    let config = case.env("OUTBOX_BASE_DELAY_SECONDS", "0.5").config();
    assert_eq!(origin(&config, "route.payments.retry.attempts"), ("7".to_owned(), "mine.toml:4".to_owned()));
    assert_eq!(origin(&config, "route.payments.retry.base").0, "\"0.5s\"");
    assert_eq!(origin(&config, "relay.take.rows"), ("50".to_owned(), "env POSTROOM_RELAY__TAKE__ROWS".to_owned()));
    assert!(origin(&config, "route.payments.retry.max").1.starts_with("preset payments:"));
    assert_eq!(config.routes.len(), 2);
}

#[test]
fn another_destination_replaces_the_presets() {
    let file = "[[route]]\nname = 'payments'\nto = { stdout = {} }\nenvelope = 'raw'\n";
    let config = with("payments").file("mine.toml", file).named("mine.toml").config();
    assert_eq!(config.routes[0].to.name(), "stdout");
}

#[test]
fn a_file_that_happens_to_be_there_does_not_change_a_preset() {
    with("payments").file("postroom.toml", "nonsense = 1").config();
    let named = with("payments").file("postroom.toml", "nonsense = 1").named("postroom.toml");
    assert!(named.error().contains("unknown key `nonsense`"));
}

#[test]
fn the_systems_own_variables_are_read() {
    let config = with("payments")
        .env("REDPANDA_BROKERS", "one:9092,two:9092")
        .env("KAFKA_TOPIC_PREFIX", "p")
        .env("OUTBOX_BATCH_SIZE", "7")
        .env("OUTBOX_POLL_INTERVAL_SECONDS", "0.25")
        .env("OUTBOX_MAX_RETRIES", "3")
        .env("OUTBOX_MAX_DELAY_SECONDS", "30")
        .config();
    let kafka = config.routes[0].to.options::<postroom_kafka::KafkaOptions>().unwrap();
    assert_eq!(kafka.brokers, ["one:9092", "two:9092"]);
    for (key, value) in [
        ("relay.take.rows", "\"7\""),
        ("store.main.poll.max", "\"0.25s\""),
        ("route.payments.retry.attempts", "\"3\""),
        ("route.payments.retry.max", "\"30s\""),
        ("route.payments.to.kafka.prefix", "\"p\""),
    ] {
        assert_eq!(origin(&config, key).0, value, "{key}");
    }
}

#[test]
fn the_bus_of_the_billing_system_is_chosen_by_its_variable() {
    for (bus, name) in [("kafka", "kafka"), ("nats", "nats"), ("noop", "noop"), ("", "kafka")] {
        let config = with("corebilling").env("EVENT_BUS", bus).config();
        assert_eq!(config.routes[0].to.name(), name, "{bus}");
    }
    let error = with("corebilling").env("EVENT_BUS", "kafak").error();
    assert!(error.contains("unknown key `kafak`") && error.contains("did you mean `kafka`?"), "{error}");
}

#[test]
fn what_is_missing_or_mistyped_is_named_with_the_next_step() {
    let error = Case::new().preset("m4").error();
    assert!(error.contains("preset m4: store `main` has no `url`") && error.contains("DATABASE_URL"), "{error}");
    assert!(error.contains("POSTROOM_ROUTE__M4__TO__EXEC__COMMAND"), "{error}");
    let error = Case::new().preset("m5").error();
    assert_eq!(error, "there is no preset `m5`\nhint: did you mean `m4`?");
}

#[test]
fn an_application_gets_the_one_store_of_a_configuration_whatever_its_routes_lack() {
    let m4 = Case::new().preset("m4").env("DATABASE_URL", "postgres://db/shop");
    assert!(m4.load().is_err(), "its route has no command");
    assert_eq!(m4.load_store().unwrap().name, "main");
    let two = m4.file("two.toml", "[store.b]\nurl = 'sqlite://b.db'\n").named("two.toml");
    let error = two.load_store().unwrap_err().to_string();
    assert!(error.starts_with("the configuration has 2 stores, and one is expected"), "{error}");
}
