//! Gives `[contract]` its meaning: schemas from a folder and from the file itself, compiled when the configuration is read.

use std::sync::Arc;

use postroom_contracts::{AppliesTo, Contracts, Mode, read_folder, read_name};
use postroom_settings::reason;
use postroom_settings::{Key, Kind, Place, Table, key, optional};

use super::read::Read;
use super::typed::ContractConfig;

/// The keys.
pub(super) static CONTRACT: &[Key] = &[
    optional(
        "folder",
        Kind::Path,
        r#""schemas""#,
        "Folder with one schema per file: TYPE.json, or TYPE@2.json for a version.",
    ),
    key(
        "applies_to",
        Kind::Word(&["payload", "envelope"]),
        r#""payload""#,
        "Part of an event that the schemas describe: the payload, or the body that a route sends.",
    ),
    key(
        "mode",
        Kind::Word(&["enforce", "warn"]),
        r#""enforce""#,
        "Handling of events that violate their schema: enforce makes them dead letters, warn logs a line and sends them.",
    ),
    optional(
        "schemas",
        Kind::Open(&Kind::Text),
        r#"{ "order.placed" = '{"required": ["total"]}' }"#,
        "JSON Schemas as texts, by event type or by \"TYPE@2\".",
    ),
    optional(
        "dead_letters",
        Kind::Text,
        r#"'{"required": ["error"]}'"#,
        "JSON Schema, as a text, of the body that a route publishes as a dead letter.",
    ),
];

impl Read<'_> {
    pub(super) fn contract(&mut self, section: &Table) -> ContractConfig {
        let applies_to =
            if section.text("applies_to") == Some("envelope") { AppliesTo::Envelope } else { AppliesTo::Payload };
        let mode = if section.text("mode") == Some("warn") { Mode::Warn } else { Mode::Enforce };
        let mut contracts = Contracts::new(applies_to, mode);
        let folder =
            section.get("folder").and_then(|node| Some((node.text().filter(|path| !path.is_empty())?, &node.place)));
        if let Some((folder, place)) = folder {
            self.folder(&mut contracts, folder, place);
        }
        for entry in section.table("schemas").map(|table| table.0.as_slice()).unwrap_or_default() {
            let Some(text) = entry.node.text() else { continue };
            let Some((event_type, version)) = read_name(&entry.name) else {
                let hint = "write \"TYPE\", or \"TYPE@2\" for a version from 1".to_owned();
                self.problems.at(&entry.place, format!("{:?} names no type and version", entry.name), Some(hint));
                continue;
            };
            if let Some(other) = contracts.origin(&event_type, version) {
                let message = format!("there are two schemas of `{}`; the other one is {other}", entry.name);
                self.problems.at(&entry.place, message, Some("remove one of them".to_owned()));
                continue;
            }
            let origin = entry.place.origin.to_string();
            if let Err(error) = contracts.add(event_type, version, text, origin) {
                self.problems.at(&entry.place, format!("the schema of `{}` cannot be used: {error}", entry.name), None);
            }
        }
        if let Some(node) = section.get("dead_letters")
            && let Some(text) = node.text()
            && let Err(error) = contracts.add_dead_letters(text)
        {
            self.problems.at(&node.place, format!("the schema of dead letters cannot be used: {error}"), None);
        }
        let folder = folder.map(|(folder, _)| self.sources.cwd.join(folder));
        ContractConfig { folder, contracts: Arc::new(contracts) }
    }

    fn folder(&mut self, contracts: &mut Contracts, folder: &str, place: &Place) {
        let files = match read_folder(&self.sources.cwd.join(folder)) {
            Ok(files) => files,
            Err(error) => {
                let hint = "create it; `postroom schema add` puts schemas there".to_owned();
                return self.problems.at(
                    place,
                    format!("cannot read the folder {folder}: {}", reason(&error)),
                    Some(hint),
                );
            }
        };
        for file in files {
            let path = format!("{folder}/{}", file.name);
            let text = match file.text {
                Ok(text) => text,
                Err(error) => {
                    self.problems.at(place, format!("cannot read {path}: {}", reason(&error)), None);
                    continue;
                }
            };
            let Some((event_type, version)) = file.means else {
                let hint = "call it TYPE.json, or TYPE@2.json for a version from 1".to_owned();
                self.problems.at(place, format!("the name of {path} is of no type and version"), Some(hint));
                continue;
            };
            if let Err(error) = contracts.add(event_type, version, &text, &path) {
                self.problems.at(place, format!("the schema {path} cannot be used: {error}"), None);
            }
        }
    }
}
