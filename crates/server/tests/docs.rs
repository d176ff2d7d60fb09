//! Pages list keys, codes and metrics as they are. `cargo xtask docs` writes them anew.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::path::PathBuf;

const BEGIN: &str = "<!-- begin: made by `cargo xtask docs` -->\n";
const END: &str = "<!-- end -->";

/// That a page has this between its marks; writes it there when asked to.
fn has(page: &str, list: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let old = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = old.split_once(BEGIN).expect("the page has a place for the list");
    let (_, after) = rest.split_once(END).expect("that place ends");
    let fresh = format!("{before}{BEGIN}\n{list}\n{END}{after}");
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(&path, fresh).expect("the page can be written");
    } else {
        assert!(old == fresh, "docs/{page} is stale; run `cargo xtask docs`");
    }
}

#[test]
fn the_page_of_the_configuration_lists_every_key_as_it_is() {
    has("config.md", &postroom_server::config::reference());
}

#[test]
fn the_page_of_failures_explains_every_code_as_explain_does() {
    has("failures.md", &(postroom_server::codes::page() + "\n"));
}

#[test]
fn the_page_of_metrics_lists_every_metric_as_it_is() {
    has("metrics.md", &(postroom_core::metrics::page() + "\n"));
}

#[test]
fn the_page_of_alerts_shows_every_rule_as_it_is() {
    has("alerts.md", &(postroom_server::dashboards::page() + "\n"));
}

#[test]
fn the_page_of_the_api_lists_every_endpoint_as_it_is() {
    has("api.md", &postroom_server::http::reference());
}

#[test]
fn the_description_of_the_api_is_that_of_the_endpoints() {
    is("openapi.json", &postroom_server::http::describe());
}

/// A map that takes longer to read is not read.
#[test]
fn the_map_stays_short_and_every_decision_it_names_has_a_page() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page is there");
    assert!(
        map.lines().count() <= 300,
        "ARCHITECTURE.md has {} lines; reasons go to docs/decisions",
        map.lines().count()
    );
    for (number, line) in map.lines().enumerate() {
        assert!(line.chars().count() <= 120, "ARCHITECTURE.md:{} is longer than 120 columns: {line}", number + 1);
    }
    let names: Vec<String> = std::fs::read_dir(root.join("docs/decisions"))
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    let index = std::fs::read_to_string(root.join("docs/decisions/README.md")).expect("the index is there");
    for name in names.iter().filter(|name| *name != "README.md") {
        assert!(index.contains(&format!("({name})")), "docs/decisions/README.md does not list {name}");
    }
    let numbers = map.split('[').skip(1).filter_map(|rest| rest.split_once(']')?.0.parse::<u32>().ok());
    for number in numbers {
        let page = format!("{number:04}-");
        assert!(names.iter().any(|name| name.starts_with(&page)), "ARCHITECTURE.md names decision {number}");
    }
}

/// That a file is this; writes it when asked to.
fn is(file: &str, value: &serde_json::Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let fresh = serde_json::to_string_pretty(value).expect("it is JSON") + "\n";
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(&path, fresh).expect("the file can be written");
    } else {
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(old == fresh, "docs/{file} is stale; run `cargo xtask docs`");
    }
}

/// A file of its own, so that editors and checks can be pointed at it.
#[cfg(all(
    feature = "postgres",
    feature = "kafka",
    feature = "rabbitmq",
    feature = "nats",
    feature = "redis",
    feature = "webhook"
))]
#[test]
fn the_schema_of_the_configuration_is_that_of_the_keys() {
    is("config.schema.json", &postroom_server::config::schema());
}
