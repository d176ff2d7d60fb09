//! What goes to stdout: a table for people, or the same records as JSON. Notes for people go to stderr.

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use postroom_core::RouteState;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

/// How data is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people. Plain comments here, or clap makes every --help twice as long.
    #[default]
    Table,
    // One JSON value: an array for lists, an object for one thing.
    Json,
    // One JSON object a line.
    Jsonl,
}

impl Format {
    /// Writes a list.
    pub(crate) fn list<T: Serialize>(self, rows: &[T], table: impl FnOnce() -> Table) -> io::Result<()> {
        match self {
            Self::Table if rows.is_empty() => note("nothing found"),
            Self::Table => print(&table().render()),
            Self::Json => print(&pretty(&rows)?),
            Self::Jsonl => print_lines(rows.iter().map(line)),
        }
    }

    /// Writes one thing.
    pub(crate) fn one<T: Serialize>(self, thing: &T, text: impl FnOnce() -> String) -> io::Result<()> {
        match self {
            Self::Table => print(&text()),
            Self::Json => print(&pretty(thing)?),
            Self::Jsonl => print(&line(thing)?),
        }
    }

    /// Writes one of an endless stream: a JSON array would never end, so both JSON forms are lines.
    pub(crate) fn stream<T: Serialize>(self, thing: &T, text: impl FnOnce() -> String) -> io::Result<()> {
        match self {
            Self::Table => print(&text()),
            Self::Json | Self::Jsonl => print(&line(thing)?),
        }
    }
}

fn pretty<T: Serialize>(thing: &T) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(thing)?)
}

fn line<T: Serialize>(thing: &T) -> io::Result<String> {
    Ok(serde_json::to_string(thing)?)
}

/// Data, with its line end; flushed, so that a reader at a pipe sees it at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Many lines of data; flushed once, at their end.
pub(crate) fn print_lines(lines: impl Iterator<Item = io::Result<String>>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in lines {
        out.write_all(line?.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A line for people, beside the data.
pub(crate) fn note(text: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{text}")
}

/// Whether colour may decorate what goes to stdout.
fn colourful() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Text from outside as one line a terminal cannot be tricked by, of at most `max` characters.
pub(crate) fn plain(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().map(clean).take(max).collect();
    if text.chars().count() > max {
        line.pop();
        line.push('…');
    }
    line
}

/// `n thing` or `n things`.
pub(crate) fn count(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    match thing.strip_suffix('y') {
        Some(stem) if n != 1 && !stem.ends_with(['a', 'e', 'o']) => format!("{n} {stem}ies"),
        _ => format!("{n} {thing}{plural}"),
    }
}

/// Longest text of one cell, in characters; JSON has the whole.
const CELL_CHARS_MAX: usize = 72;

/// Between two columns.
const GAP: &str = "  ";

/// A table without lines, so that it can be cut and grepped.
#[derive(Debug)]
pub(crate) struct Table {
    /// The names of the columns first.
    rows: Vec<Vec<Cell>>,
    right: &'static [usize],
    colourful: bool,
}

#[derive(Debug)]
struct Cell {
    text: String,
    colour: Option<Colour>,
}

/// A colour a terminal has; the number selects it.
#[derive(Debug, Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

impl Table {
    /// A table with these column names, of which those at `right` hold numbers.
    pub(crate) fn new(columns: &[&str], right: &'static [usize]) -> Self {
        let names = columns.iter().map(|name| Cell { text: (*name).to_owned(), colour: None }).collect();
        Self { rows: vec![names], right, colourful: colourful() }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.coloured(cells.into(), None);
    }

    /// Adds a row whose cell number `at` is a route's state.
    pub(crate) fn row_of_route<const N: usize>(&mut self, cells: [String; N], at: usize, state: RouteState) {
        let colour = match state {
            RouteState::Running => Colour::Green,
            RouteState::New | RouteState::Paused | RouteState::HalfOpen | RouteState::Orphan => Colour::Yellow,
            _ => Colour::Red,
        };
        self.coloured(cells.into(), Some((at, colour)));
    }

    fn coloured(&mut self, cells: Vec<String>, colour: Option<(usize, Colour)>) {
        let cells = cells.into_iter().enumerate().map(|(n, text)| Cell {
            text: plain(&text, CELL_CHARS_MAX),
            colour: colour.filter(|(at, _)| self.colourful && *at == n).map(|(_, colour)| colour),
        });
        self.rows.push(cells.collect());
    }

    /// The text, without a line end.
    pub(crate) fn render(self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |n: usize| self.rows.iter().filter_map(|row| Some(row.get(n)?.text.width())).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let lines = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).enumerate();
            let cells: Vec<_> = cells.map(|(n, (cell, width))| cell.fill(*width, self.right.contains(&n))).collect();
            cells.join(GAP).trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Cell {
    fn fill(&self, width: usize, right: bool) -> String {
        let text = match self.colour {
            Some(colour) => format!("\x1b[{}m{}\x1b[0m", colour as u8, self.text),
            None => self.text.clone(),
        };
        let space = " ".repeat(width.saturating_sub(self.text.width()));
        if right { space + &text } else { text + &space }
    }
}

/// A value that may be missing.
pub(crate) fn dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "–".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_lines_and_numbers_stand_right() {
        let mut table = Table::new(&["route", "due"], &[1]);
        table.row(["orders".into(), "3".into()]);
        table.row_of_route(["x".into(), "1200".into()], 0, RouteState::Down);
        assert_eq!(table.render(), "route    due\norders     3\nx       1200");
    }

    #[test]
    fn wide_letters_and_colours_keep_the_columns() {
        let mut table = Table { colourful: true, ..Table::new(&["key", "state", "note"], &[]) };
        table.row(["注文".into(), "x".into(), String::new()]);
        table.row_of_route(["k".into(), "down".into(), "n".into()], 1, RouteState::Down);
        assert_eq!(table.render(), "key   state  note\n注文  x\nk     \x1b[31mdown\x1b[0m   n");
    }

    #[test]
    fn text_from_outside_cannot_move_the_cursor() {
        assert_eq!(plain("a\x1b[2J\nb", 20), "a [2J b");
        assert_eq!(plain("abcdef", 4), "abc…");
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(
            [count(1, "delivery"), count(2, "delivery"), count(0, "key"), count(1, "event")],
            ["1 delivery", "2 deliveries", "0 keys", "1 event"]
        );
    }
}
