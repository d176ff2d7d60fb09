//! Gives a checked tree its meaning: names are looked up, tables become policies.
//!
//! A value of the wrong kind has been reported by [`postroom_settings`]; here it counts as absent, so that the rest of the file is
//! read all the same and every problem is reported at once.

use std::path::PathBuf;

use postroom_core::{Budget, Limits, Retention, valid_name};
use postroom_settings::{Node, Problems, Setting, Table};

use super::keys::LOG_LEVELS;
use super::typed::{Config, LogConfig, LogFormat, RelayConfig};
use super::{Sources, find};

/// What a complete tree means.
pub(super) fn config(
    tree: &Table,
    sources: &Sources,
    file: Option<PathBuf>,
    settings: Vec<Setting>,
    problems: &mut Problems,
) -> Config {
    let empty = Table::default();
    let section = |name: &str| tree.table(name).unwrap_or(&empty);
    let mut read = Read { sources, problems };
    if let Some(name) = tree.get("name").filter(|n| n.text().is_some_and(|t| !t.is_empty() && !valid_name(t))) {
        let message = format!("{:?} cannot be the name of an instance", name.text().unwrap_or_default());
        let hint = "use lower-case letters, digits, `-`, `_` and `.`, at most 63".to_owned();
        read.problems.at(&name.place, message, Some(hint));
    }
    let stores = read.stores(section("store"), section("retention"));
    let names: Vec<String> = section("store").0.iter().map(|e| e.name.clone()).collect();
    let mut routes = read.routes(tree.get("route").and_then(Node::list).unwrap_or_default(), &names, section("retry"));
    #[cfg(feature = "adopted")]
    read.claims(&stores, section("relay").duration("lease"), tree);
    #[cfg(feature = "adopted")]
    read.adopted(&stores, &routes, tree.get("route").and_then(Node::list).unwrap_or_default());
    read.consumers(&stores, &routes, tree.get("route").and_then(Node::list).unwrap_or_default());
    read.together(tree, &mut routes);
    // For its problems only: a route brings its own part in.
    read.retry(Some(section("retry")), &empty);
    #[cfg(feature = "contracts")]
    let contract = read.contract(section("contract"));
    let http = read.http(section("http"));
    #[cfg(feature = "otlp")]
    let telemetry = read.telemetry(section("telemetry"), tree.text("name").unwrap_or_default());
    let relay = section("relay");
    let take = relay.table("take").unwrap_or(&empty);
    Config {
        name: tree.text("name").unwrap_or_default().to_owned(),
        stores,
        relay: RelayConfig {
            lease: relay.duration("lease"),
            in_flight_max: relay.count("in_flight_max"),
            shutdown_grace: relay.duration("shutdown_grace"),
            take: Budget { rows: take.count("rows"), bytes: take.size("bytes") },
        },
        routes,
        retention: Retention {
            delivered: section("retention").duration_or_never("delivered"),
            attempts: section("retention").duration_or_never("attempts"),
            inbox: section("inbox").duration_or_never("retention"),
        },
        limits: Limits { payload_bytes_max: section("limits").size("payload") },
        #[cfg(feature = "contracts")]
        contract,
        http,
        #[cfg(feature = "otlp")]
        telemetry,
        log: log(section("log")),
        searched: if file.is_none() { find::places(sources) } else { Vec::new() },
        file,
        settings,
    }
}

/// Reads with the problems at hand.
pub(super) struct Read<'a> {
    pub(super) sources: &'a Sources,
    pub(super) problems: &'a mut Problems,
}

impl Read<'_> {
    /// What a file that a key names holds, without the white space around it; nothing when that has been reported.
    pub(super) fn text_of_file(&mut self, file: &Node, what: &str) -> Option<String> {
        self.problems.text_of_file(&self.sources.cwd, file, what)
    }
}

fn log(table: &Table) -> LogConfig {
    let format = match table.text("format") {
        Some("human") => LogFormat::Human,
        Some("json") => LogFormat::Json,
        _ => LogFormat::Auto,
    };
    let level = LOG_LEVELS.iter().find(|level| table.text("level") == Some(level));
    LogConfig { format, level: level.copied().unwrap_or("info") }
}
