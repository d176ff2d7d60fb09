//! A guessed layout as a configuration file, with what is unsure as comments.

use std::fmt::Write as _;

use postroom_adopted::guess::{Confidence, Guess, Guessed, Value};
use postroom_adopted::layout::TableName;

/// What stands around a layout.
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
        "# The layout of {}, as `postroom adopt` guessed it. Look at what is unsure before a relay runs with it.\n",
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
    let _ = write!(text, "\n[store.{store}.layout]\n");
    of("").for_each(|guessed| line(&mut text, guessed));
    let _ = write!(text, "\n[store.{store}.layout.event]\n");
    of("event").for_each(|guessed| line(&mut text, guessed));
    if !guess.unused.is_empty() {
        let names: Vec<String> = guess.unused.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "# not used: {}; what belongs to the event: attributes = {{ name = \"column\" }}",
            comment(&names.join(", "))
        );
    }
    let _ = write!(text, "\n[store.{store}.layout.state]\n");
    let mut state = of("state").peekable();
    if state.peek().is_none() {
        text.push_str("# nothing tells a row's state: delivered rows are DELETED\n");
    }
    state.for_each(|guessed| line(&mut text, guessed));
    if frame.route {
        let _ = write!(text, "\n[[route]]\nname = \"{}\"\n", route_name(&frame.table));
        if frame.one_of_many {
            let _ = writeln!(text, "store = \"{}\"", frame.store);
        }
        text.push_str(
            "# Put the real destination here: this one prints events, and rows that are printed count as delivered.\n",
        );
        text.push_str("to = { stdout = {} }\n");
    }
    text
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
