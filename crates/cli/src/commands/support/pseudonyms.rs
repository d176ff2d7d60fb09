//! Words that stand for what nobody outside may read: the same value always by the same word, so that a helper can still
//! follow one key through all files. What is kept is listed; everything else is replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use postroom_core::units::{parse_duration, parse_size};
use postroom_server::codes;
use postroom_server::config;
use serde_json::Value;

/// Fields and labels whose words are Postroom's own.
const OURS: [&str; 17] = [
    "action",
    "arch",
    "class",
    "head_state",
    "kind",
    "le",
    "level",
    "on_dead",
    "on_failure",
    "os",
    "outcome",
    "quantile",
    "result",
    "state",
    "status",
    "transport",
    "version",
];

/// The same of the configuration.
const CHOICES: [&str; 8] = ["anonymous", "envelope", "format", "level", "on_dead", "on_failure", "pooler", "start"];

/// Who stands for whom.
#[derive(Debug, Default)]
pub(super) struct Pseudonyms {
    words: BTreeMap<(String, String), usize>,
    numbers: BTreeMap<String, usize>,
}

impl Pseudonyms {
    /// The word for a value of this kind.
    pub(super) fn word(&mut self, kind: &str, value: &str) -> String {
        if value.is_empty() {
            return String::new();
        }
        let next = self.numbers.entry(kind.to_owned()).or_default();
        let number = *self.words.entry((kind.to_owned(), value.to_owned())).or_insert_with(|| {
            *next += 1;
            *next
        });
        format!("{kind}-{number}")
    }

    /// Every text of an answer, by the field it stands in.
    pub(super) fn json(&mut self, value: &mut Value, field: &str) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| self.json(value, name)),
            Value::Array(list) => list.iter_mut().for_each(|value| self.json(value, field)),
            Value::String(text) => *text = self.text(field, text),
            _ => {}
        }
    }

    fn text(&mut self, field: &str, text: &str) -> String {
        let known = field == "code" && codes::find(text).is_some();
        if known || OURS.contains(&field) || text.parse::<Timestamp>().is_ok() {
            return text.to_owned();
        }
        let kind = match field {
            "id" | "head_id" => "event",
            "paused_by" => "actor",
            "holder" => "relay",
            "routes" => "route",
            "differences" | "hint" | "fix" | "message" | "note" | "reason" => "text",
            "" => "value",
            field => field,
        };
        self.word(kind, text)
    }

    /// The configuration: its keys without names, of its values only numbers, times, sizes and choices.
    pub(super) fn settings(&mut self, settings: &mut Value) {
        let mut known = BTreeSet::new();
        names(&config::schema(), &mut known);
        for setting in settings.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let part = |setting: &serde_json::Map<String, Value>, name: &str| {
                setting.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let (key, value, origin) = (part(setting, "key"), part(setting, "value"), part(setting, "origin"));
            let origin = if origin == "default" { origin } else { self.word("origin", &origin) };
            // Also by default: some defaults are made from names.
            setting.insert("value".to_owned(), self.setting(&key, &value).into());
            setting.insert("key".to_owned(), self.key(&key, &known).into());
            setting.insert("origin".to_owned(), origin.into());
        }
    }

    fn setting(&mut self, key: &str, value: &str) -> String {
        let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            let plain = value.parse::<f64>().is_ok() || matches!(value, "true" | "false" | "{}" | "[]");
            return if plain { value.to_owned() } else { self.word("value", value) };
        };
        let choice = key.rsplit('.').next().is_some_and(|last| CHOICES.contains(&last))
            && text.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
        if choice || text == "***" || parse_duration(text).is_ok() || parse_size(text).is_ok() {
            return value.to_owned();
        }
        match key.split('.').collect::<Vec<_>>()[..] {
            ["route", _, "name"] => self.word("route", text),
            ["route", _, "store"] => self.word("store", text),
            ["name"] => self.word("relay", text),
            _ => self.word("value", text),
        }
    }

    fn key(&mut self, key: &str, known: &BTreeSet<String>) -> String {
        let mut above = "";
        let mut segments = Vec::new();
        for segment in key.split('.') {
            let named = segments.len() == 1 && matches!(above, "store" | "route");
            segments.push(match (named, known.contains(segment)) {
                (true, _) => self.word(above, segment),
                (false, true) => segment.to_owned(),
                (false, false) => self.word("name", segment),
            });
            above = segment;
        }
        segments.join(".")
    }

    /// What Prometheus reads: values of labels.
    pub(super) fn metrics(&mut self, text: &str) -> String {
        text.lines().map(|line| self.sample(line) + "\n").collect()
    }

    fn sample(&mut self, line: &str) -> String {
        let labels = line.split_once('{').filter(|_| !line.starts_with('#'));
        let Some((name, mut rest)) = labels else { return line.to_owned() };
        let mut out = format!("{name}{{");
        while let Some((label, after)) = rest.split_once("=\"") {
            let end = closing_quote(after);
            let label_name = label.trim_start_matches(',');
            let _ = write!(out, "{label}=\"{}\"", self.text(label_name, &after[..end]));
            rest = after.get(end + 1..).unwrap_or_default();
        }
        out + rest
    }
}

/// Where a label's value ends; a quote in it has a backslash before it.
fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The names of all keys, from the schema of the configuration.
fn names(schema: &Value, known: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                known.extend(properties.keys().cloned());
            }
            fields.values().for_each(|value| names(value, known));
        }
        Value::Array(list) => list.iter().for_each(|value| names(value, known)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_value_has_the_same_word_in_every_file() {
        let mut words = Pseudonyms::default();
        let mut dead = json!([{ "id": "e-1", "key": "acme", "tenant": "acme", "code": "exec.error", "error": "no", "attempts": 3 }]);
        let mut blocked =
            json!({ "head_id": "e-1", "key": "acme", "code": "acme.made_up", "since": "2026-11-16T10:00:00Z" });
        words.json(&mut dead, "");
        words.json(&mut blocked, "");
        assert_eq!(
            dead,
            json!([{ "id": "event-1", "key": "key-1", "tenant": "tenant-1", "code": "exec.error", "error": "error-1", "attempts": 3 }])
        );
        let expected =
            json!({ "head_id": "event-1", "key": "key-1", "code": "code-1", "since": "2026-11-16T10:00:00Z" });
        assert_eq!(blocked, expected);
    }

    #[test]
    fn labels_of_metrics_are_replaced_and_the_rest_stays() {
        let text = "# HELP a b {c=\"d\"}\na{store=\"acme \\\"x\\\"\",route=\"r\",le=\"0.5\"} 3\nb 4\n";
        let expected = "# HELP a b {c=\"d\"}\na{store=\"store-1\",route=\"route-1\",le=\"0.5\"} 3\nb 4\n";
        assert_eq!(Pseudonyms::default().metrics(text), expected);
    }

    #[test]
    fn of_the_configuration_names_and_texts_are_replaced() {
        let setting = |key: &str, value: &str| json!({ "key": key, "value": value, "origin": "default" });
        let mut settings = json!([
            setting("store.acme.url", "\"sqlite://acme.db\""),
            setting("relay.lease", "\"30s\""),
            setting("route.acme.on_dead", "\"hold\""),
            setting("route.acme.match", "[\"acme.*\"]"),
            setting("route.acme.to.kafka.made-up", "3"),
        ]);
        Pseudonyms::default().settings(&mut settings);
        let expected = json!([
            setting("store.store-1.url", "value-1"),
            setting("relay.lease", "\"30s\""),
            setting("route.route-1.on_dead", "\"hold\""),
            setting("route.route-1.match", "value-2"),
            setting("route.route-1.to.kafka.name-1", "3"),
        ]);
        assert_eq!(settings, expected);
    }
}
