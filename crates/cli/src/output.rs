//! Output on stdout: a table for people, or the same records as JSON. Notes for people go to stderr.

mod table;

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

#[cfg(feature = "top")]
pub(crate) use table::shortened;
pub(crate) use table::{Narrower, Table};

/// Output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people. Plain comments here, or clap makes every --help twice as long.
    #[default]
    Table,
    // The same with every column in full, whatever the width of the terminal.
    Wide,
    // One JSON value: an array for lists, an object for one thing.
    Json,
    // One JSON object a line.
    Jsonl,
}

impl Format {
    /// Writes a list.
    pub(crate) fn list<T: Serialize>(self, rows: &[T], table: impl FnOnce() -> Table) -> io::Result<()> {
        match self {
            Self::Table | Self::Wide if rows.is_empty() => note("nothing found"),
            Self::Table | Self::Wide => print(&table().render()),
            Self::Json => print(&pretty(&rows)?),
            Self::Jsonl => print_lines(rows.iter().map(line)),
        }
    }

    /// Writes one record.
    pub(crate) fn one<T: Serialize>(self, thing: &T, text: impl FnOnce() -> String) -> io::Result<()> {
        match self {
            Self::Table | Self::Wide => print(&text()),
            Self::Json => print(&pretty(thing)?),
            Self::Jsonl => print(&line(thing)?),
        }
    }

    /// Writes one record of an endless stream: a JSON array would never end, so both JSON formats are lines.
    pub(crate) fn stream<T: Serialize>(self, thing: &T, text: impl FnOnce() -> String) -> io::Result<()> {
        match self {
            Self::Table | Self::Wide => print(&text()),
            Self::Json | Self::Jsonl => print(&line(thing)?),
        }
    }
}

fn pretty<T: Serialize>(thing: &T) -> io::Result<String> {
    Ok(for_eyes(serde_json::to_string_pretty(thing)?))
}

fn line<T: Serialize>(thing: &T) -> io::Result<String> {
    Ok(for_eyes(serde_json::to_string(thing)?))
}

/// Escapes, on a terminal, what JSON may contain unescaped and a terminal obeys or hides. It stands in strings only.
fn for_eyes(json: String) -> String {
    let obeyed = |c: char| c != '\n' && is_deceptive(c);
    if !io::stdout().is_terminal() || !json.contains(obeyed) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // All of these are in the first plane.
        if obeyed(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether a terminal obeys the character, or shows something else than what is there: controls, changes of the writing direction
/// and characters without width.
fn is_deceptive(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    c.is_control() || hides
}

/// Quotes an argument for a shell if need be, for commands that people paste.
pub(crate) fn shell(text: &str) -> String {
    let tame = |c: char| c.is_ascii_alphanumeric() || "_./:@%+=,-".contains(c);
    if !text.is_empty() && text.chars().all(tame) {
        let options_end = if text.starts_with('-') { "-- " } else { "" };
        return format!("{options_end}{text}");
    }
    let quoted = plain(text, usize::MAX).replace('\'', r"'\''");
    format!("{}'{quoted}'", if text.starts_with('-') { "-- " } else { "" })
}

/// Prints data with a line end, flushed, so that a reader of a pipe sees it at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints many lines of data, flushed once at the end.
pub(crate) fn print_lines(lines: impl Iterator<Item = io::Result<String>>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in lines {
        out.write_all(line?.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Prints a line for people on stderr.
pub(crate) fn note(text: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{text}")
}

/// Renders untrusted text as one line of at most `max` characters, without characters that a terminal obeys or hides.
pub(crate) fn plain(text: &str, max: usize) -> String {
    let clean = |c: char| if is_deceptive(c) { ' ' } else { c };
    let mut line: String = text.chars().map(clean).take(max).collect();
    if text.chars().count() > max {
        line.pop();
        line.push('…');
    }
    line
}

/// Formats a count: `n thing` or `n things`.
pub(crate) fn count(n: u64, thing: &str) -> String {
    format!("{n} {}", plural(n, thing))
}

/// Formats a noun for a count: `delivery` or `deliveries`.
pub(crate) fn plural(n: u64, thing: &str) -> String {
    match thing.strip_suffix('y') {
        _ if n == 1 => thing.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ => format!("{thing}s"),
    }
}

/// Formats a large number: `205,000`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a value that may be missing.
pub(crate) fn dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "–".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_move_the_cursor() {
        assert_eq!(plain("a\x1b[2J\nb", 20), "a [2J b");
        assert_eq!(plain("abcdef", 4), "abc…");
    }

    #[test]
    fn large_numbers_have_groups() {
        assert_eq!([0, 999, 1000, 205_000, 1_234_567].map(grouped), ["0", "999", "1,000", "205,000", "1,234,567"]);
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(
            [count(1, "delivery"), count(2, "delivery"), count(0, "key"), count(1, "event")],
            ["1 delivery", "2 deliveries", "0 keys", "1 event"]
        );
    }
}
