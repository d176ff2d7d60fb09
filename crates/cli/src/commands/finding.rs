//! How people read what a check found out.

use std::fmt::Write as _;

use postroom_core::{Diagnostic, Level};

use crate::output::plain;

/// Longest message of a diagnostic on a line; JSON has the whole message.
const MESSAGE_CHARS_MAX: usize = 500;

/// Renders `store main: redis.eviction: …`, with the fix on lines of its own.
pub(super) fn line(found: &Diagnostic) -> String {
    let about = about(found).map(|about| format!("{about}: ")).unwrap_or_default();
    told(found, &about, "")
}

/// Returns the subject of the diagnostic, unless it is the configuration.
pub(super) fn about(found: &Diagnostic) -> Option<String> {
    match (&found.store, &found.route) {
        (Some(store), _) => Some(format!("store {store}")),
        (None, Some(route)) => Some(format!("route {route}")),
        (None, None) => None,
    }
}

/// Renders level, subject, code and message; every line begins with `indent`.
pub(super) fn told(found: &Diagnostic, about: &str, indent: &str) -> String {
    let level = match found.level {
        Level::Fine => "ok",
        Level::Warning => "warning",
        Level::Problem => "problem",
    };
    let code = found.code.as_ref().map_or_else(String::new, |code| format!("{code}: "));
    let mut text = format!("{indent}{level:<8} {about}{code}{}", plain(&found.message, MESSAGE_CHARS_MAX));
    let hints = found.hint.iter().map(|hint| ("hint", hint));
    for (word, lines) in hints.chain(found.fix.iter().map(|fix| ("fix", fix))) {
        for (n, line) in lines.lines().enumerate() {
            let word = if n == 0 { format!("{word}: ") } else { " ".repeat(word.len() + 2) };
            let _ = write!(text, "\n{indent}         {word}{}", plain(line, usize::MAX));
        }
    }
    text
}
