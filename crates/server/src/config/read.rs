//! Gives a checked tree its meaning: names are looked up, tables become policies.
//!
//! A value of the wrong kind has been reported by [`super::check`]; here it counts as absent, so that the rest of the file is
//! read all the same and every problem is reported at once.

use std::path::PathBuf;
use std::time::Duration;

use postroom_core::units::format_duration;
use postroom_core::{Budget, Limits, Retention, valid_name};
use postroom_relay::Poll;

use super::Sources;
use super::keys::LOG_LEVELS;
use super::problem::Problems;
use super::secret::StoreUrl;
use super::show::Setting;
use super::tree::{Node, Place, Table};
use super::typed::{Config, LogConfig, LogFormat, RelayConfig, StoreConfig};

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
    let stores = read.stores(section("store"));
    let names: Vec<String> = section("store").0.iter().map(|e| e.name.clone()).collect();
    let routes = read.routes(tree.get("route").and_then(Node::list).unwrap_or_default(), &names, section("retry"));
    // For its problems only: a route brings its own part in.
    read.retry(Some(section("retry")), &empty);
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
        log: log(section("log")),
        file,
        settings,
    }
}

/// Reads with the problems at hand.
pub(super) struct Read<'a> {
    sources: &'a Sources,
    pub(super) problems: &'a mut Problems,
}

impl Read<'_> {
    fn stores(&mut self, section: &Table) -> Vec<StoreConfig> {
        let mut stores = Vec::new();
        for entry in &section.0 {
            let Some(table) = entry.node.table() else { continue };
            let Some((url, place)) = self.url(&entry.name, table, &entry.place) else { continue };
            match url.scheme() {
                "sqlite" => {
                    if let Some((_, parameters)) = url.expose().split_once('?')
                        && parameters != "mode=ro"
                    {
                        let message =
                            format!("the url of store `{}` has parameters this store does not know", entry.name);
                        let hint = "leave them out; only `?mode=ro` (look, never write) has a meaning".to_owned();
                        self.problems.at(&place, message, Some(hint));
                    }
                }
                scheme @ ("postgres" | "postgresql") => {
                    let message = format!("this build has no store for `{scheme}://`");
                    self.problems.at(
                        &place,
                        message,
                        Some("it has sqlite, for instance \"sqlite://postroom.db\"".to_owned()),
                    );
                }
                _ => {
                    let message = format!("the url of store `{}` names no kind of store", entry.name);
                    self.problems.at(&place, message, Some("write for instance \"sqlite://postroom.db\"".to_owned()));
                }
            }
            let empty = Table::default();
            let poll = table.table("poll").unwrap_or(&empty);
            let store = StoreConfig {
                name: entry.name.clone(),
                url,
                source: table.text("source").unwrap_or_default().to_owned(),
                poll: Poll { min: poll.duration("min"), max: poll.duration("max") },
            };
            self.in_order(poll, ("min", store.poll.min), ("max", store.poll.max));
            stores.push(store);
        }
        stores
    }

    /// The URL of a store, from `url` or from the file that `url_file` names.
    fn url(&mut self, name: &str, table: &Table, place: &Place) -> Option<(StoreUrl, Place)> {
        match (table.get("url"), table.get("url_file")) {
            (Some(_), Some(file)) => {
                let message = format!("store `{name}` has both `url` and `url_file`");
                self.problems.at(&file.place, message, Some("leave one of them out".to_owned()));
                None
            }
            (Some(url), None) => Some((StoreUrl::new(url.text()?), url.place.clone())),
            (None, Some(file)) => {
                let path = file.text().filter(|p| !p.is_empty())?;
                let read = std::fs::read_to_string(self.sources.cwd.join(path));
                match read.map(|text| text.trim().to_owned()) {
                    Ok(url) if url.is_empty() => {
                        self.problems.at(&file.place, format!("the file {path} is empty; it must hold a URL"), None);
                        None
                    }
                    Ok(url) => Some((StoreUrl::new(url), file.place.clone())),
                    Err(error) => {
                        self.problems.at(&file.place, format!("cannot read {path}: {}", reason(&error)), None);
                        None
                    }
                }
            }
            (None, None) => {
                let hint = "add url = \"sqlite://postroom.db\"".to_owned();
                self.problems.at(place, format!("store `{name}` has no `url`"), Some(hint));
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

fn log(table: &Table) -> LogConfig {
    let format = match table.text("format") {
        Some("human") => LogFormat::Human,
        Some("json") => LogFormat::Json,
        _ => LogFormat::Auto,
    };
    let level = LOG_LEVELS.iter().find(|level| table.text("level") == Some(level));
    LogConfig { format, level: level.copied().unwrap_or("info") }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
