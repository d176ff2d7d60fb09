//! The JSON Schema of the configuration accepts what the reader accepts, and refuses what a look at one value shows to be wrong.

#![cfg(all(
    feature = "postgres",
    feature = "kafka",
    feature = "rabbitmq",
    feature = "nats",
    feature = "redis",
    feature = "webhook"
))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use postroom_server::config::{PRESETS, schema};
use serde_json::Value;

use crate::bad;

fn validator() -> Validator {
    jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&schema()).unwrap()
}

fn json(toml: &str) -> Value {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{error}\n{toml}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn presets_examples_and_every_file_of_the_pages_are_accepted() {
    let mut good: Vec<(String, String)> =
        PRESETS.iter().map(|preset| (preset.name.to_owned(), preset.text.to_owned())).collect();
    let example = root().join("examples/exec-handler/postroom.toml");
    good.push(("example".to_owned(), fs::read_to_string(example).unwrap()));
    for page in fs::read_dir(root().join("docs")).unwrap() {
        let page = page.unwrap().path();
        let Ok(text) = fs::read_to_string(&page) else { continue };
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            if block.starts_with("[dependencies]") {
                continue;
            }
            // Some show a part of a route.
            let head = if block.starts_with("to = ") { "[[route]]\nname = \"r\"\n" } else { "" };
            good.push((page.display().to_string(), format!("{head}{block}")));
        }
    }
    assert!(good.len() > 15, "only {} files", good.len());
    let validator = validator();
    for (name, text) in good {
        if let Err(error) = validator.validate(&json(&text)) {
            panic!("{name}: {} at {}\n{text}", error, error.instance_path());
        }
    }
}

#[test]
fn what_the_reader_takes_as_text_or_from_a_variable_is_accepted() {
    let validator = validator();
    for good in [
        "[relay]\nlease = \"${LEASE:-30s}\"\nin_flight_max = \"${WINDOW}\"",
        "[relay]\nlease = \"1m 30.5s\"\nin_flight_max = \"64\"\ntake = { rows = 1, bytes = \"4 MiB\" }",
        "[retention]\ndelivered = \"never\"\nattempts = \"${KEEP}\"",
        "[log]\nlevel = \"${LEVEL:-info}\"",
        "[retry]\njitter = \"${JITTER}\"",
        "[retry]\njitter = 1",
        "[store.\"${NAME}\"]\nurl = [\"postgres://a/x\", \"${URL}\"]\nlanes = \"${LANES}\"",
        "[[route]]\nname = \"${ROUTE}\"\nmatch = [\"${TYPES}\"]\nrate = \"0.5/s\"\nto = { noop = {} }",
        "[[route]]\nname = \"r\"\nstart = \"2026-01-02T03:04:05Z\"\nto = { stdout = {} }",
        "[[route]]\nname = \"k\"\nto = { kafka = { brokers = [\"a:1\"], topic = \"t\", tls = \"${TLS}\" } }",
    ] {
        assert!(validator.is_valid(&json(good)), "{good}: {:?}", validator.validate(&json(good)).err());
    }
}

/// How the names of cases begin whose mistake shows in one value. The others are for the reader: what values mean together.
const OF_ONE_VALUE: &[&str] = &[
    "count-",
    "duration-",
    "enum-",
    "exec-empty-",
    "in-flight-",
    "jitter-",
    "renamed-",
    "retention-bad-",
    "retry-schedule-bad-",
    "route-bad-",
    "route-empty-target",
    "route-invalid-name",
    "route-two-targets",
    "route-without-name",
    "section-",
    "size-",
    "store-invalid-name",
    "store-lanes-",
    "unknown-",
];

#[test]
fn what_is_wrong_with_one_value_is_refused_as_the_reader_refuses_it() {
    let validator = validator();
    let mut refused = 0;
    for case in bad::pages().iter().flat_map(|page| bad::cases(page)) {
        if OF_ONE_VALUE.iter().any(|begin| case.name.starts_with(begin)) {
            assert!(!validator.is_valid(&json(&case.file)), "{} is accepted", case.name);
            refused += 1;
        }
    }
    assert!(refused > 25, "only {refused} cases");
}
