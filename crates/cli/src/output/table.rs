//! Tables without lines, so that they can be cut and grepped. On a terminal a table fits its width: columns are left out and
//! texts are shortened, in the order that the table declares. Elsewhere, and with `-o wide`, it has everything.

use postroom_core::RouteState;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::plain;
use crate::screen::Screen;

/// Gap between two columns.
const GAP: &str = "  ";
/// Width below which a text is not shortened: less is no help.
const TEXT_MIN: usize = 12;
/// Width of a shortened id: a prefix that commands accept, and that is unique within a millisecond.
const ID_MIN: usize = 20;

/// Table for people.
#[derive(Debug)]
pub(crate) struct Table {
    /// Rows, with the names of the columns first.
    rows: Vec<Vec<Cell>>,
    right: &'static [usize],
    narrower: &'static [Narrower],
    without: &'static [&'static str],
    screen: Screen,
}

/// Step that makes a table narrower.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Narrower {
    /// Leaves the column out.
    Drop(&'static str),
    /// Shortens the texts of the column.
    Shorten(&'static str),
    /// Shortens the ids of the column; they stay long enough to be typed.
    ShortenId(&'static str),
}

#[derive(Debug)]
struct Cell {
    text: String,
    colour: Option<Colour>,
}

/// Colour of a terminal; the number selects it.
#[derive(Debug, Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Column as it is shown.
#[derive(Debug)]
struct Column {
    at: usize,
    width: usize,
}

impl Table {
    /// Creates a table with these column names; the columns at `right` hold numbers.
    pub(crate) fn new(columns: &[&str], right: &'static [usize]) -> Self {
        let names = columns.iter().map(|name| Cell { text: (*name).to_owned(), colour: None }).collect();
        Self { rows: vec![names], right, narrower: &[], without: &[], screen: Screen::get() }
    }

    /// Declares what becomes narrower on a terminal that is too small, in this order. When that is not enough, the widest
    /// texts are shortened, and then columns are left out from the right. The first column always stays.
    pub(crate) fn narrower(self, narrower: &'static [Narrower]) -> Self {
        Self { narrower, ..self }
    }

    /// Leaves columns out that would say nothing.
    pub(crate) fn without(self, without: &'static [&'static str]) -> Self {
        Self { without, ..self }
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
            text: plain(&text, usize::MAX),
            colour: colour.filter(|(at, _)| self.screen.colourful && *at == n).map(|(_, colour)| colour),
        });
        self.rows.push(cells.collect());
    }

    /// Renders a table for terminals of several widths.
    #[cfg(test)]
    pub(crate) fn at_widths(table: impl Fn() -> Self) -> String {
        let at = |width| {
            let table = table();
            let screen = Screen { width: Some(width), ..table.screen };
            format!("{width}:\n{}\n", Self { screen, ..table }.render())
        };
        [200, 120, 80, 60].map(at).concat()
    }

    /// Renders the table without a line end.
    pub(crate) fn render(self) -> String {
        let columns = self.columns();
        let lines = self.rows.iter().map(|row| {
            let cells = columns.iter().filter_map(|column| Some((column, row.get(column.at)?)));
            let cells: Vec<_> =
                cells.map(|(column, cell)| cell.fill(column.width, self.right.contains(&column.at))).collect();
            cells.join(GAP).trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the columns that are shown, narrow enough for the screen.
    fn columns(&self) -> Vec<Column> {
        let number = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |n: usize| self.rows.iter().filter_map(|row| Some(row.get(n)?.text.width())).max().unwrap_or(0);
        let mut columns: Vec<Column> = (0..number).map(|at| Column { at, width: widest(at) }).collect();
        columns.retain(|column| !self.without.iter().any(|name| self.is_called(column, name)));
        let Some(width) = self.screen.width else { return columns };
        for step in self.narrower {
            let over = over(&columns, width);
            if over == 0 {
                return columns;
            }
            match *step {
                Narrower::Drop(name) => columns.retain(|column| !self.is_called(column, name)),
                Narrower::Shorten(name) => self.shorten(&mut columns, name, over, TEXT_MIN),
                Narrower::ShortenId(name) => self.shorten(&mut columns, name, over, ID_MIN),
            }
        }
        self.squeeze(columns, width)
    }

    fn is_called(&self, column: &Column, name: &str) -> bool {
        self.rows.first().and_then(|names| names.get(column.at)).is_some_and(|cell| cell.text == name)
    }

    fn shorten(&self, columns: &mut [Column], name: &str, over: usize, least: usize) {
        for column in columns.iter_mut().filter(|column| self.is_called(column, name)) {
            column.shorten(over, least);
        }
    }

    /// Makes the table fit whatever it takes, as far as the first column lets it.
    fn squeeze(&self, mut columns: Vec<Column>, width: usize) -> Vec<Column> {
        loop {
            let over = over(&columns, width);
            if over == 0 {
                return columns;
            }
            // A cut number is a wrong number.
            let texts = columns.iter_mut().filter(|column| !self.right.contains(&column.at));
            if let Some(widest) = texts.filter(|column| column.width > TEXT_MIN).max_by_key(|column| column.width) {
                widest.shorten(over, TEXT_MIN);
            } else if columns.len() > 1 {
                columns.pop();
            } else {
                return columns;
            }
        }
    }
}

impl Column {
    /// Takes `over` from the width, and leaves `least`.
    fn shorten(&mut self, over: usize, least: usize) {
        self.width = self.width.saturating_sub(over).max(least.min(self.width));
    }
}

/// Returns by how much the columns are too wide.
fn over(columns: &[Column], width: usize) -> usize {
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    let all: usize = columns.iter().map(|column| column.width).sum();
    (all + gaps).saturating_sub(width)
}

impl Cell {
    fn fill(&self, width: usize, right: bool) -> String {
        let text = shortened(&self.text, width);
        let space = " ".repeat(width.saturating_sub(text.width()));
        let text = match self.colour {
            Some(colour) => format!("\x1b[{}m{text}\x1b[0m", colour as u8),
            None => text,
        };
        if right { space + &text } else { text + &space }
    }
}

/// Returns the text, or the part of it that fits, with `…`.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = |letter: &char| {
        let wide = letter.width().unwrap_or(0);
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Times;
    use Narrower::{Drop, Shorten, ShortenId};

    /// A terminal of this width.
    fn at(width: usize, table: Table) -> Table {
        Table { screen: Screen { width: Some(width), colourful: false, times: Times::Age }, ..table }
    }

    #[test]
    fn a_table_has_no_lines_and_numbers_stand_right() {
        let mut table = Table::new(&["route", "due"], &[1]);
        table.row(["orders".into(), "3".into()]);
        table.row_of_route(["x".into(), "1200".into()], 0, RouteState::Down);
        assert_eq!(table.render(), "route    due\norders     3\nx       1200");
    }

    #[test]
    fn wide_letters_and_colours_keep_the_columns() {
        let table = Table::new(&["key", "state", "note"], &[]);
        let mut table = Table { screen: Screen { colourful: true, ..table.screen }, ..table };
        table.row(["注文".into(), "x".into(), String::new()]);
        table.row_of_route(["k".into(), "down".into(), "n".into()], 1, RouteState::Down);
        assert_eq!(table.render(), "key   state  note\n注文  x\nk     \x1b[31mdown\x1b[0m   n");
    }

    fn letters() -> Table {
        let mut table = Table::new(&["route", "to", "due", "error", "id"], &[2]).narrower(&[
            Drop("to"),
            Shorten("error"),
            ShortenId("id"),
        ]);
        table.row([
            "order-confirmations".into(),
            "webhook https://partner.example/hooks".into(),
            "12".into(),
            "no such address: a.very.long.name@a.very.long.domain.example".into(),
            "0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11".into(),
        ]);
        table
    }

    #[test]
    fn a_table_fits_every_terminal_and_gives_up_what_matters_least_first() {
        insta::assert_snapshot!(Table::at_widths(letters));
        for width in 12..250 {
            let text = at(width, letters()).render();
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn the_first_column_keeps_twelve_letters_and_a_number_is_never_cut() {
        let tight = at(1, letters()).render();
        assert_eq!(tight, "route\norder-confi…");
        let mut table = Table::new(&["count", "name"], &[0]);
        table.row(["1234567890123456".into(), "x".into()]);
        assert_eq!(at(5, table).render(), "           count\n1234567890123456");
    }

    #[test]
    fn without_a_terminal_nothing_is_shortened() {
        let text = letters().render();
        assert!(text.contains("a.very.long.domain.example  0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"), "{text}");
    }

    #[test]
    fn wide_letters_are_not_cut_in_half() {
        assert_eq!((shortened("注文番号", 6), shortened("注文番号", 8)), ("注文…".into(), "注文番号".into()));
        assert_eq!(shortened("注文番号", 4), "注…");
    }
}
