//! Gives a checked tree its meaning: names are looked up, tables become policies.
//!
//! A value of the wrong kind has been reported by [`super::check`]; here it counts as absent, so that the rest of the file is
//! read all the same and every problem is reported at once.

use std::path::PathBuf;
use std::time::Duration;

use postroom_core::units::format_duration;
use postroom_core::{Budget, Limits, Retention, valid_name};

use super::Sources;
use super::keys::LOG_LEVELS;
use super::problem::Problems;
use super::show::Setting;
#[cfg(feature = "nats")]
use super::transports;
#[cfg(feature = "rabbitmq")]
use super::transports::Target;
use super::tree::{Node, Table};
use super::typed::{Config, LogConfig, LogFormat, RelayConfig};

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
    #[cfg_attr(
        not(any(feature = "rabbitmq", feature = "nats")),
        expect(unused_mut, reason = "only those transports add to them")
    )]
    let mut routes = read.routes(tree.get("route").and_then(Node::list).unwrap_or_default(), &names, section("retry"));
    #[cfg(feature = "adopted")]
    read.claims(&stores, section("relay").duration("lease"), tree);
    #[cfg(feature = "adopted")]
    read.adopted(&stores, &routes, tree.get("route").and_then(Node::list).unwrap_or_default());
    #[cfg(feature = "rabbitmq")]
    if let Some(topology) = read.topology(section("topology")) {
        for route in &mut routes {
            if let Target::RabbitMq(options) = &mut route.to {
                options.topology = Some(topology.clone());
            }
        }
    }
    #[cfg(feature = "nats")]
    transports::nats::tell_of_each_other(&mut routes);
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
        let path = file.text().filter(|p| !p.is_empty())?;
        let read = std::fs::read_to_string(self.sources.cwd.join(path));
        match read.map(|text| text.trim().to_owned()) {
            Ok(text) if text.is_empty() => {
                self.problems.at(&file.place, format!("the file {path} is empty; it must hold {what}"), None);
                None
            }
            Ok(text) => Some(text),
            Err(error) => {
                self.problems.at(&file.place, format!("cannot read {path}: {}", reason(&error)), None);
                None
            }
        }
    }

    /// Says when the lower of two bounds is above the higher one, at whichever of them somebody set.
    pub(super) fn in_order(&mut self, table: &Table, low: (&str, Duration), high: (&str, Duration)) {
        let set = |name| table.get(name).filter(|n| !n.is_default());
        if low.1 > high.1
            && let Some(node) = set(low.0).or_else(|| set(high.0))
        {
            let (low, high) = ((low.0, format_duration(low.1)), (high.0, format_duration(high.1)));
            let message = format!("`{}` = {} is longer than `{}` = {}", low.0, low.1, high.0, high.1);
            self.problems.at(&node.place, message, None);
        }
    }
}

pub(super) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
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
