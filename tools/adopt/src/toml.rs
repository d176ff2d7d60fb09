//! A guessed mapping as a configuration file, with what is unsure as comments.

use std::fmt::Write as _;

use postroom_adopted::mapping::TableName;

use crate::guess::{Confidence, Guess, Guessed, Value};

/// What stands around a mapping.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) store: String,
    pub(super) table: TableName,
    /// The store's url, where the file must have one.
    pub(super) url: Option<String>,
    /// Whether a route is needed.
    pub(super) route: bool,
    /// Whether the route must say which store it is of.
    pub(super) one_of_many: bool,
}

/// The file.
pub(super) fn write(guess: &Guess, frame: &Frame) -> String {
    let mut text = format!(
        "# Mapping of {}, detected by `postroom adopt`. Review the lines marked `unsure` before you run a relay.\n",
        comment(&frame.table.to_string())
    );
    let store = key(&frame.store);
    if let Some(url) = &frame.url {
        let _ = write!(text, "\n[store.{store}]\nurl = \"{url}\"\n");
    }
    let of = |section: &'static str| {
        let within = move |guessed: &&Guessed| guessed.key.split_once('.').map_or("", |(found, _)| found) == section;
        guess.keys.iter().filter(within)
    };
    let _ = write!(text, "\n[store.{store}.mapping]\n");
    of("").for_each(|guessed| line(&mut text, guessed));
    let _ = write!(text, "\n[store.{store}.mapping.event]\n");
    of("event").for_each(|guessed| line(&mut text, guessed));
    if !guess.unused.is_empty() {
        let names: Vec<String> = guess.unused.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "# not used: {}; to send one with the event: attributes = {{ name = \"column\" }}",
            comment(&names.join(", "))
        );
    }
    let _ = write!(text, "\n[store.{store}.mapping.state]\n");
    let mut state = of("state").peekable();
    if state.peek().is_none() {
        text.push_str("# a row that is there is to be sent, as you said: delivered rows are DELETED\n");
    }
    state.for_each(|guessed| line(&mut text, guessed));
    if frame.route {
        route(&mut text, frame);
    }
    text
}

/// Destinations of a route, each with the keys that it needs.
const DESTINATIONS: [&str; 7] = [
    r#"{ kafka = { brokers = ["kafka.example:9092"], topic = "events" } }"#,
    r#"{ rabbitmq = { url = "amqp://rabbit.example", exchange = "events" } }"#,
    r#"{ nats = { url = "nats://nats.example:4222", subject = "events.{type}" } }"#,
    r#"{ redis = { url = "redis://redis.example:6379", stream = "events" } }"#,
    r#"{ webhook = { url = "https://partner.example/hooks" } }"#,
    r#"{ exec = { command = ["python3", "handler.py"] } }"#,
    r#"{ file = { folder = "events" } }"#,
];

/// The route, commented out: a destination that nobody chose would take rows that it does not keep.
fn route(text: &mut String, frame: &Frame) {
    text.push_str(
        "\n# Where the rows go: choose one destination and remove the comment signs of [[route]], of name and of its `to`.\n",
    );
    let _ = write!(text, "# [[route]]\n# name = \"{}\"\n", route_name(&frame.table));
    if frame.one_of_many {
        let _ = writeln!(text, "# store = \"{}\"", frame.store);
    }
    for destination in DESTINATIONS {
        let _ = writeln!(text, "# to = {destination}");
    }
}

/// A store's name as a key: dots in it would make it several.
fn key(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() }
}

fn line(text: &mut String, guessed: &Guessed) {
    let key = guessed.key.split_once('.').map_or(guessed.key.as_str(), |(_, key)| key);
    if guessed.confidence == Confidence::Unsure {
        let others =
            if guessed.others.is_empty() { String::new() } else { format!("; or {}", guessed.others.join(", ")) };
        let _ = writeln!(text, "# unsure: {}{}", comment(&guessed.why), comment(&others));
    }
    let _ = writeln!(text, "{key} = {}", value(&guessed.value));
}

/// A value as TOML.
pub(super) fn value(value: &Value) -> String {
    // `${` would be filled in.
    let text = |text: &String| ::toml::Value::String(text.replace("${", "$${")).to_string();
    match value {
        Value::Text(one) => text(one),
        Value::List(list) => format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(", ")),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// Text that cannot end a comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A name for the route, like the table's.
fn route_name(table: &TableName) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c.to_ascii_lowercase() } else { '-' };
    let name: String = table.table.as_str().chars().map(plain).take(40).collect();
    let name = name.trim_matches(['-', '_']);
    if name.is_empty() { "events".to_owned() } else { name.to_owned() }
}
