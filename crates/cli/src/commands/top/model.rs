//! What `top` knows: the last look, how fast each route was in the looks before, and what somebody is looking at.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use postroom_core::view::RouteStatus;
use postroom_server::status::Report;

/// Looks that are remembered: three minutes.
pub(super) const LOOKS_MAX: usize = 180;

/// Store and route.
type Name = (String, String);

#[derive(Debug, Default)]
pub(super) struct Model {
    /// The last look; none while the first one takes.
    pub(super) report: Option<Report>,
    pub(super) view: View,
    selected: Option<Name>,
    pace: BTreeMap<Name, Pace>,
}

/// What the screen shows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Routes,
    Route,
    Help,
}

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

/// Deliveries per second from look to look, in tenths.
#[derive(Debug, Default)]
struct Pace {
    before: Option<(Instant, u64)>,
    tenths: VecDeque<u64>,
}

impl Pace {
    fn learn(&mut self, delivered: u64, now: Instant) {
        if let Some((then, before)) = self.before {
            let millis = u64::try_from(now.saturating_duration_since(then).as_millis()).unwrap_or(u64::MAX);
            // A route that was forgotten and made anew begins at 0 again.
            let more = delivered.saturating_sub(before);
            self.tenths.push_back(more.saturating_mul(10_000) / millis.max(100));
        }
        self.before = Some((now, delivered));
        while self.tenths.len() > LOOKS_MAX {
            self.tenths.pop_front();
        }
    }
}

impl Model {
    /// Takes what a look found.
    pub(super) fn learn(&mut self, report: Report, now: Instant) {
        self.pace.retain(|name, _| report.routes.iter().any(|route| name_of(route) == *name));
        for route in &report.routes {
            self.pace.entry(name_of(route)).or_default().learn(route.delivered, now);
        }
        self.report = Some(report);
        self.select(0);
    }

    /// Does what a key asks for.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Next::Quit,
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Esc if self.view == View::Routes => return Next::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Enter if self.view == View::Routes && self.selected().is_some() => self.view = View::Route,
            KeyCode::Char('?') if self.view != View::Help => self.view = View::Help,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('?') => self.view = View::Routes,
            _ => {}
        }
        Next::Stay
    }

    pub(super) fn routes(&self) -> &[RouteStatus] {
        self.report.as_ref().map_or(&[], |report| report.routes.as_slice())
    }

    /// Which row is selected.
    pub(super) fn row(&self) -> Option<usize> {
        self.routes().iter().position(|route| Some(name_of(route)) == self.selected)
    }

    pub(super) fn selected(&self) -> Option<&RouteStatus> {
        self.routes().get(self.row()?)
    }

    /// How fast a route was, in tenths per second, oldest first.
    pub(super) fn pace(&self, route: &RouteStatus) -> Vec<u64> {
        self.pace.get(&name_of(route)).map(|pace| pace.tenths.iter().copied().collect()).unwrap_or_default()
    }

    /// So many rows further down; the row stays with its route when others come or go.
    fn select(&mut self, further: isize) {
        let row = self.row().unwrap_or(0).saturating_add_signed(further);
        let row = row.min(self.routes().len().saturating_sub(1));
        self.selected = self.routes().get(row).map(name_of);
        if self.selected.is_none() && self.view == View::Route {
            self.view = View::Routes;
        }
    }
}

fn name_of(route: &RouteStatus) -> Name {
    (route.store.clone(), route.route.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom_core::{RouteDefinition, RouteState};
    use postroom_server::status::unasked;

    use super::*;

    fn report(routes: &[(&str, u64)]) -> Report {
        let route = |(name, delivered): &(&str, u64)| RouteStatus {
            delivered: *delivered,
            ..unasked("main", &RouteDefinition::new(*name), RouteState::Running, "")
        };
        Report { routes: routes.iter().map(route).collect(), ..Report::default() }
    }

    fn press(model: &mut Model, code: KeyCode) -> Next {
        model.press(KeyEvent::from(code))
    }

    #[test]
    fn the_pace_is_what_came_from_look_to_look() {
        let (mut model, start) = (Model::default(), Instant::now());
        for (second, delivered) in [(0, 100), (1, 110), (3, 150), (4, 0)] {
            model.learn(report(&[("a", delivered)]), start + Duration::from_secs(second));
        }
        assert_eq!(model.pace(&model.routes()[0]), [100, 200, 0]);
    }

    #[test]
    fn the_selection_stays_with_its_route_and_within_the_list() {
        let mut model = Model::default();
        assert_eq!(press(&mut model, KeyCode::Enter), Next::Stay);
        assert_eq!(model.view, View::Routes, "there is nothing to open yet");
        model.learn(report(&[("a", 0), ("b", 0)]), Instant::now());
        press(&mut model, KeyCode::Char('j'));
        press(&mut model, KeyCode::Down);
        assert_eq!(model.selected().unwrap().route, "b");
        model.learn(report(&[("a", 0), ("aa", 0), ("b", 0)]), Instant::now());
        assert_eq!((model.row(), model.selected().unwrap().route.as_str()), (Some(2), "b"));
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.view, View::Route);
        model.learn(report(&[]), Instant::now());
        assert_eq!((model.view, model.row()), (View::Routes, None));
    }

    #[test]
    fn escape_goes_one_back_and_then_ends() {
        let mut model = Model::default();
        press(&mut model, KeyCode::Char('?'));
        assert_eq!((press(&mut model, KeyCode::Esc), model.view), (Next::Stay, View::Routes));
        assert_eq!(press(&mut model, KeyCode::Esc), Next::Quit);
        assert_eq!(press(&mut model, KeyCode::Char('q')), Next::Quit);
        assert_eq!(model.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Quit);
    }
}
