//! How `top` looks: a pure function of what it knows. Fits 80 by 24.

use std::time::Duration;

use postroom_core::RouteState;
use postroom_core::view::RouteStatus;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::model::{Model, View};
use crate::commands::status::last_line;
use crate::output::{count, plain};
use crate::when;

/// From this width on there is room for the notes.
const WIDE: u16 = 112;
/// Columns of the line that says how fast a route was.
const TREND: usize = 12;
/// Longest text of a note, in characters.
const NOTE_MAX: usize = 400;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, body, note, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(3), Constraint::Length(2), Constraint::Length(1)])
            .areas(frame.area());
    let said = model.report.as_ref().map_or_else(|| "looking …".to_owned(), last_line);
    frame.render_widget(Paragraph::new(plain(&said, NOTE_MAX)).wrap(Wrap { trim: true }), head);
    match (model.view, model.selected()) {
        (View::Help, _) => help(frame, body),
        (View::Route, Some(route)) => one(frame, body, route, &model.pace(route)),
        _ => routes(frame, body, model),
    }
    let narrow = model.view == View::Routes && body.width < WIDE;
    if let Some(route) = model.selected().filter(|route| narrow && !route.note.is_empty()) {
        let text = format!("{}: {}", plain(&route.route, NOTE_MAX), plain(&route.note, NOTE_MAX));
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
    let wide = area.width >= WIDE;
    let mut columns = vec![
        ("route", Constraint::Fill(2)),
        ("state", Constraint::Length(13)),
        ("due", Constraint::Length(7)),
        ("oldest", Constraint::Length(6)),
        ("rate", Constraint::Length(8)),
        ("last minutes", Constraint::Length(12)),
        ("retry", Constraint::Length(5)),
        ("block", Constraint::Length(5)),
        ("dead", Constraint::Length(5)),
    ];
    if wide {
        columns.push(("note", Constraint::Fill(3)));
    }
    let names = columns.iter().map(|(name, _)| {
        let number = matches!(*name, "due" | "oldest" | "rate" | "retry" | "block" | "dead");
        Cell::new(Text::from(*name).alignment(if number { Alignment::Right } else { Alignment::Left }))
    });
    let header = Row::new(names).style(Style::new().add_modifier(Modifier::BOLD));
    let rows = routes.iter().map(|route| row(route, several, wide, &model.pace(route)));
    let table = Table::new(rows, columns.iter().map(|(_, width)| *width))
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(model.row());
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(route: &RouteStatus, several: bool, wide: bool, pace: &[u64]) -> Row<'static> {
    let name = if several { format!("{}/{}", route.store, route.route) } else { route.route.clone() };
    let right = |text: String| Cell::new(Text::from(text).alignment(Alignment::Right));
    let mut cells = vec![
        Cell::new(plain(&name, NOTE_MAX)),
        Cell::new(route.state.as_str().replace('_', " ")).style(Style::new().fg(colour(route.state))),
        right(due(route)),
        right(oldest(route)),
        right(format!("{:.1}/s", route.rate)),
        Cell::new(trend(pace)),
        right(route.retrying.to_string()),
        right(route.blocked_keys.to_string()),
        right(route.dead.to_string()),
    ];
    if wide {
        cells.push(Cell::new(plain(&route.note, NOTE_MAX)));
    }
    Row::new(cells)
}

fn due(route: &RouteStatus) -> String {
    format!("{}{}", if route.due_estimated { "~" } else { "" }, route.due)
}

fn oldest(route: &RouteStatus) -> String {
    when::age(Duration::try_from_secs_f64(route.oldest_due_seconds).unwrap_or_default())
}

/// The colour only repeats what the word says.
fn colour(state: RouteState) -> Color {
    match state {
        RouteState::Running => Color::Green,
        RouteState::New | RouteState::Paused | RouteState::HalfOpen | RouteState::Orphan => Color::Yellow,
        _ => Color::Red,
    }
}

/// How fast it was: as many looks behind one sign as needed for all of them to fit.
fn trend(pace: &[u64]) -> String {
    let each = pace.len().div_ceil(TREND).max(1);
    let means: Vec<u64> = pace.rchunks(each).rev().map(|some| some.iter().sum::<u64>() / some.len() as u64).collect();
    let most = means.iter().copied().max().unwrap_or(0).max(1);
    means.iter().map(|mean| BARS[usize::try_from((mean * 8).div_ceil(most)).unwrap_or(8).min(8)]).collect()
}

fn one(frame: &mut Frame<'_>, area: Rect, route: &RouteStatus, pace: &[u64]) {
    let block = Block::bordered().title(format!(" {} of store {} ", plain(&route.route, 40), plain(&route.store, 20)));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [words, line] = Layout::vertical([Constraint::Min(10), Constraint::Max(5)]).areas(inside);
    let note = if route.note.is_empty() { "–".to_owned() } else { plain(&route.note, NOTE_MAX) };
    let mut lines: Vec<Line<'_>> = [
        ("to", plain(&route.to, NOTE_MAX)),
        ("state", route.state.as_str().replace('_', " ")),
        ("note", note),
        ("due", format!("{}, the oldest for {}", due(route), oldest(route))),
        ("rate", format!("{:.1}/s over the last minute, {} delivered in all", route.rate, route.delivered)),
        ("retrying", route.retrying.to_string()),
        ("blocked", count(route.blocked_keys, "key")),
        ("dead", count(route.dead, "letter")),
    ]
    .map(|(name, value)| Line::from(format!("{name:<9} {value}")))
    .into();
    if route.dead > 0 {
        lines.push(Line::from(format!("{:<9} postroom dead ls --route {}", "next", plain(&route.route, 40))));
    } else if route.blocked_keys > 0 {
        lines.push(Line::from(format!("{:<9} postroom key ls --blocked --route {}", "next", plain(&route.route, 40))));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), words);
    let newest = pace.len().saturating_sub(usize::from(line.width));
    frame.render_widget(Sparkline::default().data(&pace[newest..]), line);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let text = "↑ ↓ or k j    select a route\n\
                enter         more of the route: its note, its dead letters\n\
                esc           back; from the list: quit\n\
                q, ctrl-c     quit\n\n\
                rate          deliveries per second over the last minute\n\
                last minutes  the same from second to second, up to three minutes\n\
                retry         deliveries that wait for another try\n\
                block         keys that wait behind an event that failed\n\
                dead          dead letters: not tried again by themselves\n\n\
                Everything is asked once a second, of the stores. `postroom status` prints the same once.";
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" help ")).wrap(Wrap { trim: false }), area);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crossterm::event::{KeyCode, KeyEvent};
    use postroom_core::RouteDefinition;
    use postroom_core::view::StoreRow;
    use postroom_server::status::{Report, unasked};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn report(delivered: u64) -> Report {
        let route = |name: &str, state| RouteStatus {
            delivered,
            ..unasked("main", &RouteDefinition { to: "exec mailer.py".into(), ..RouteDefinition::new(name) }, state, "")
        };
        let busy = RouteStatus {
            due: 18_000,
            due_estimated: true,
            oldest_due_seconds: 252.0,
            note: "kafka.unavailable: no broker\x1b[2J answers".into(),
            ..route("billing", RouteState::BreakerOpen)
        };
        let sick = RouteStatus { dead: 2, rate: 1.25, blocked_keys: 1, ..route("orders", RouteState::Running) };
        let store = StoreRow {
            store: "main".into(),
            kind: "sqlite",
            reachable: true,
            schema_version: 1,
            events: 120,
            bytes: None,
            unmatched: 3,
            note: String::new(),
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
        assert!(screen(&model, 80, 24).contains("looking …"));
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
