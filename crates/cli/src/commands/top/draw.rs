//! How `top` looks: a pure function of what it knows. Fits 80 by 24; a narrower terminal shows fewer columns.

use postroom_core::{RouteState, Timestamp};
use postroom_server::status::RouteLine;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState, Wrap};
use unicode_width::UnicodeWidthStr as _;

use super::model::{Model, View};
use crate::commands::status::{self, last_line};
use crate::output::{count, dash, plain, shortened};

/// Width from which the column of messages is shown.
const WIDE: u16 = 112;
/// Width that the names of routes always have, in columns.
const NAME_MIN: usize = 12;
/// Width of a route's sparkline, in columns.
const TREND: usize = 12;
/// Longest message of a route, in characters.
const NOTE_MAX: usize = 400;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, body, note, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(3), Constraint::Length(2), Constraint::Length(1)])
            .areas(frame.area());
    let said = model.report.as_ref().map_or_else(|| "loading …".to_owned(), last_line);
    frame.render_widget(Paragraph::new(plain(&said, NOTE_MAX)).wrap(Wrap { trim: true }), head);
    match (model.view, model.selected()) {
        (View::Help, _) => help(frame, body),
        (View::Route, Some(route)) => one(frame, body, route, &model.pace(route)),
        _ => routes(frame, body, model),
    }
    let narrow = model.view == View::Routes && body.width < WIDE;
    if let Some(route) = model.selected().filter(|route| narrow && !route.message.is_empty()) {
        let text = format!("{}: {}", plain(&route.route, NOTE_MAX), plain(&route.message, NOTE_MAX));
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), note);
    }
    let keys = match model.view {
        View::Routes => "q quit   ↑↓ select   enter more of a route   ? help",
        View::Route | View::Help => "q quit   esc back",
    };
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::REVERSED)), foot);
}

fn routes(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    if model.report.is_some() && model.routes().is_empty() {
        frame.render_widget(Paragraph::new("no routes yet; add a [[route]] to the configuration"), area);
        return;
    }
    let routes = model.routes();
    let several = routes.windows(2).any(|two| two[0].store != two[1].store);
    let names: Vec<String> = routes.iter().map(|route| name(route, several)).collect();
    let longest = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let columns = columns(area.width, longest);
    // Messages and names share the rest of a wide terminal, where names are whole.
    let for_name = if area.width >= WIDE { longest } else { room(area.width, &columns) };
    let header = columns.iter().map(|column| Cell::new(Text::from(column.name).alignment(column.alignment())));
    let header = Row::new(header).style(Style::new().add_modifier(Modifier::BOLD));
    let rows = routes.iter().zip(&names).map(|(route, name)| {
        let pace = model.pace(route);
        let name = shortened(name, for_name);
        Row::new(columns.iter().map(|column| column.cell(&name, route, &pace)))
    });
    let table = Table::new(rows, columns.iter().map(|column| column.width))
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(model.row());
    frame.render_stateful_widget(table, area, &mut state);
}

/// Column of the list of routes.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    width: Constraint,
}

const fn column(name: &'static str, width: Constraint) -> Column {
    Column { name, width }
}

/// Columns of a wide terminal, from left to right.
const COLUMNS: [Column; 10] = [
    column("route", Constraint::Fill(2)),
    column("state", Constraint::Length(13)),
    column("due", Constraint::Length(7)),
    column("oldest", Constraint::Length(6)),
    column("rate", Constraint::Length(8)),
    column("last minutes", Constraint::Length(12)),
    column("retry", Constraint::Length(5)),
    column("block", Constraint::Length(5)),
    column("dead", Constraint::Length(5)),
    column("message", Constraint::Fill(3)),
];

/// Columns that a narrow terminal leaves out, the first one first; the route and its state always stay.
const LEFT_OUT: [&str; 7] = ["last minutes", "block", "retry", "rate", "oldest", "due", "dead"];

/// Returns the columns that leave room for the names of routes.
fn columns(width: u16, longest: usize) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    columns.retain(|column| width >= WIDE || column.name != "message");
    for name in LEFT_OUT {
        if room(width, &columns) >= longest.min(NAME_MIN) {
            break;
        }
        columns.retain(|column| column.name != name);
    }
    columns
}

/// Returns what the columns of a fixed width leave for the others.
fn room(width: u16, columns: &[Column]) -> usize {
    let fixed = |column: &Column| match column.width {
        Constraint::Length(width) => usize::from(width),
        _ => 0,
    };
    let gaps = columns.len().saturating_sub(1);
    usize::from(width).saturating_sub(columns.iter().map(fixed).sum::<usize>() + gaps)
}

impl Column {
    fn alignment(self) -> Alignment {
        match self.name {
            "due" | "oldest" | "rate" | "retry" | "block" | "dead" => Alignment::Right,
            _ => Alignment::Left,
        }
    }

    fn cell(self, name: &str, route: &RouteLine, pace: &[u64]) -> Cell<'static> {
        let text = match self.name {
            "route" => name.to_owned(),
            "state" => route.state.as_str().replace('_', " "),
            "due" => status::due(route),
            "oldest" => oldest(route),
            "rate" => rate(route),
            "last minutes" => trend(pace),
            "retry" => dash(route.retrying.as_ref()),
            "block" => dash(route.blocked_keys.as_ref()),
            "dead" => dash(route.dead.as_ref()),
            _ => plain(&status::message(route, Timestamp::now()), NOTE_MAX),
        };
        let cell = Cell::new(Text::from(text).alignment(self.alignment()));
        if self.name == "state" { cell.style(Style::new().fg(colour(route.state))) } else { cell }
    }
}

fn name(route: &RouteLine, several: bool) -> String {
    let name = if several { format!("{}/{}", route.store, route.route) } else { route.route.clone() };
    plain(&name, NOTE_MAX)
}

fn oldest(route: &RouteLine) -> String {
    dash(route.oldest_due_seconds.map(status::seconds).as_ref())
}

fn rate(route: &RouteLine) -> String {
    dash(route.rate.map(|rate| format!("{rate:.1}/s")).as_ref())
}

/// Returns the colour of a state; it only repeats what the word says.
fn colour(state: RouteState) -> Color {
    match state {
        RouteState::Running => Color::Green,
        RouteState::New | RouteState::Paused | RouteState::HalfOpen | RouteState::Orphan => Color::Yellow,
        _ => Color::Red,
    }
}

/// Draws the rates as a sparkline; one sign stands for as many samples as needed for all of them to fit.
fn trend(pace: &[u64]) -> String {
    let each = pace.len().div_ceil(TREND).max(1);
    let means: Vec<u64> = pace.rchunks(each).rev().map(|some| some.iter().sum::<u64>() / some.len() as u64).collect();
    let most = means.iter().copied().max().unwrap_or(0).max(1);
    means.iter().map(|mean| BARS[usize::try_from((mean * 8).div_ceil(most)).unwrap_or(8).min(8)]).collect()
}

fn one(frame: &mut Frame<'_>, area: Rect, route: &RouteLine, pace: &[u64]) {
    let block = Block::bordered().title(format!(" {} of store {} ", plain(&route.route, 40), plain(&route.store, 20)));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [words, line] = Layout::vertical([Constraint::Min(10), Constraint::Max(5)]).areas(inside);
    let note = status::message(route, Timestamp::now());
    let note = if note.is_empty() { "–".to_owned() } else { plain(&note, NOTE_MAX) };
    let mut lines: Vec<Line<'_>> = [
        ("to", plain(&route.to, NOTE_MAX)),
        ("state", route.state.as_str().replace('_', " ")),
        ("message", note),
        ("due", format!("{}, the oldest for {}", status::due(route), oldest(route))),
        ("rate", format!("{} over the last seconds, {} delivered in all", rate(route), dash(route.delivered.as_ref()))),
        ("retrying", dash(route.retrying.as_ref())),
        ("blocked", route.blocked_keys.map_or_else(|| "–".to_owned(), |keys| count(keys, "key"))),
        ("dead", route.dead.map_or_else(|| "–".to_owned(), |dead| count(dead, "letter"))),
    ]
    .map(|(name, value)| Line::from(format!("{name:<9} {value}")))
    .into();
    if route.dead > Some(0) {
        lines.push(Line::from(format!("{:<9} postroom dead ls --route {}", "next", plain(&route.route, 40))));
    } else if route.blocked_keys > Some(0) {
        lines.push(Line::from(format!("{:<9} postroom key ls --blocked --route {}", "next", plain(&route.route, 40))));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), words);
    let newest = pace.len().saturating_sub(usize::from(line.width));
    frame.render_widget(Sparkline::default().data(&pace[newest..]), line);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let text = "↑ ↓ or k j    select a route\n\
                enter         more of the route: its message and the next step\n\
                esc           back; from the list: quit\n\
                q, ctrl-c     quit\n\n\
                rate          deliveries per second over the last seconds\n\
                last minutes  the same from second to second, up to three minutes\n\
                retry         deliveries that wait for another try\n\
                block         keys that wait behind an event that failed\n\
                dead          dead letters: not tried again by themselves\n\n\
                Everything is asked once a second, of the stores. `postroom status` prints the same once.";
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" help ")).wrap(Wrap { trim: false }), area);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crossterm::event::{KeyCode, KeyEvent};
    use postroom_admin::view::StoreRow;
    use postroom_core::RouteSpec;
    use postroom_server::status::{Report, unasked};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn report(delivered: u64) -> Report {
        let route = |name: &str, state| RouteLine {
            delivered: Some(delivered),
            ..unasked("main", &RouteSpec { to: "exec mailer.py".into(), ..RouteSpec::new(name) }, state, "")
        };
        let busy = RouteLine {
            due: Some(18_000),
            due_estimated: true,
            oldest_due_seconds: Some(252.0),
            message: "kafka.unavailable: no broker\x1b[2J answers".into(),
            ..route("billing", RouteState::BreakerOpen)
        };
        let sick = RouteLine {
            dead: Some(2),
            rate: Some(1.25),
            blocked_keys: Some(1),
            ..route("orders", RouteState::Running)
        };
        let store = StoreRow {
            store: "main".into(),
            kind: "sqlite",
            reachable: true,
            schema_version: Some(1),
            events: Some(120),
            events_estimated: false,
            bytes: None,
            unmatched: Some(3),
            message: String::new(),
        };
        Report { routes: vec![busy, sick], stores: vec![store], ..Report::default() }
    }

    fn known() -> Model {
        let (mut model, start) = (Model::default(), Instant::now());
        for second in 0..30 {
            model.learn(report(second * second), start + Duration::from_secs(second));
        }
        model
    }

    fn screen(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn everything_fits_a_small_terminal() {
        insta::assert_snapshot!(screen(&known(), 80, 24));
    }

    #[test]
    fn a_wide_terminal_has_room_for_notes() {
        insta::assert_snapshot!(screen(&known(), 140, 12));
    }

    #[test]
    fn a_route_keeps_its_name_and_its_state_at_every_width() {
        let mut report = report(9);
        report.routes[0].route = "order-confirmations".into();
        let mut model = Model::default();
        model.learn(report, Instant::now());
        let all = [200, 120, 80, 60].map(|width| format!("{width}:\n{}", screen(&model, width, 8)));
        insta::assert_snapshot!(all.concat());
        for width in 26..200 {
            let screen = screen(&model, width, 8);
            assert!(screen.contains("order-confi") && screen.contains("breaker open"), "{width}:\n{screen}");
        }
    }

    #[test]
    fn one_route_shows_its_note_its_dead_letters_and_the_next_step() {
        let mut model = known();
        for key in [KeyCode::Down, KeyCode::Enter] {
            model.press(KeyEvent::from(key));
        }
        insta::assert_snapshot!(screen(&model, 80, 24));
    }

    #[test]
    fn the_first_look_and_the_help_have_a_screen_too() {
        let mut model = Model::default();
        assert!(screen(&model, 80, 24).contains("loading …"));
        model.press(KeyEvent::from(KeyCode::Char('?')));
        assert!(screen(&model, 80, 24).contains("dead letters: not tried again"));
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (20, 5), (80, 3)] {
            for key in [KeyCode::Esc, KeyCode::Enter, KeyCode::Char('?')] {
                let mut model = known();
                model.press(KeyEvent::from(key));
                screen(&model, width, height);
            }
        }
    }

    #[test]
    fn the_trend_has_room_for_every_look() {
        assert_eq!(trend(&[]), "");
        assert_eq!(trend(&[0, 40, 80]), " ▄█");
        assert_eq!(trend(&[10; 180]).chars().count(), TREND);
    }
}
