//! What goes to stdout: a table for people, or the same records as JSON. Notes for people go to stderr.

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, Color, Row, presets};
use postroom_core::RouteState;
use serde::Serialize;

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

/// A table without lines, so that it can be cut and grepped.
#[derive(Debug)]
pub(crate) struct Table {
    inner: comfy_table::Table,
    right: &'static [usize],
}

impl Table {
    /// A table with these column names, of which those at `right` hold numbers.
    pub(crate) fn new(columns: &[&str], right: &'static [usize]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING).set_header(columns.iter().copied().map(Cell::new).collect::<Vec<_>>());
        if !colourful() {
            inner.force_no_tty();
        }
        Self { inner, right }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.coloured(cells, None);
    }

    /// Adds a row whose cell number `at` is a route's state.
    pub(crate) fn row_of_route<const N: usize>(&mut self, cells: [String; N], at: usize, state: RouteState) {
        let colour = match state {
            RouteState::Running => Color::Green,
            RouteState::New | RouteState::Paused | RouteState::HalfOpen | RouteState::Orphan => Color::Yellow,
            _ => Color::Red,
        };
        self.coloured(cells, Some((at, colour)));
    }

    fn coloured<const N: usize>(&mut self, cells: [String; N], colour: Option<(usize, Color)>) {
        let cells = cells.into_iter().enumerate().map(|(n, text)| {
            let cell = Cell::new(plain(&text, CELL_CHARS_MAX));
            match colour {
                Some((at, colour)) if at == n => cell.fg(colour),
                _ => cell,
            }
        });
        self.inner.add_row(Row::from(cells.collect::<Vec<_>>()));
    }

    /// The text, without a line end.
    pub(crate) fn render(mut self) -> String {
        for (n, column) in self.inner.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if self.right.contains(&n) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.inner.trim_fmt()
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
