//! What `top` knows: the last look, how fast each route was in the looks before, and what somebody is looking at.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use postroom_server::status::{Report, RouteLine};

/// Number of samples kept: three minutes.
pub(super) const LOOKS_MAX: usize = 180;

/// Name of a store and of one of its routes.
type Name = (String, String);

#[derive(Debug, Default)]
pub(super) struct Model {
    /// Latest sample; none until the first one arrives.
    pub(super) report: Option<Report>,
    pub(super) view: View,
    selected: Option<Name>,
    pace: BTreeMap<Name, Pace>,
}

/// View that the screen shows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Routes,
    Route,
    Help,
}

/// Effect of a key press.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Stay,
    Quit,
}

/// Deliveries per second between two samples, in tenths.
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
    /// Adds a sample.
    pub(super) fn learn(&mut self, report: Report, now: Instant) {
        self.pace.retain(|name, _| report.routes.iter().any(|route| name_of(route) == *name));
        for route in &report.routes {
            self.pace.entry(name_of(route)).or_default().learn(route.delivered.unwrap_or(0), now);
        }
        self.report = Some(report);
        self.select(0);
    }

    /// Handles a key press.
    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return KeyEffect::Quit,
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Esc if self.view == View::Routes => return KeyEffect::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Enter if self.view == View::Routes && self.selected().is_some() => self.view = View::Route,
            KeyCode::Char('?') if self.view != View::Help => self.view = View::Help,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('?') => self.view = View::Routes,
            _ => {}
        }
        KeyEffect::Stay
    }

    pub(super) fn routes(&self) -> &[RouteLine] {
        self.report.as_ref().map_or(&[], |report| report.routes.as_slice())
    }

    /// Returns the index of the selected row.
    pub(super) fn row(&self) -> Option<usize> {
        self.routes().iter().position(|route| Some(name_of(route)) == self.selected)
    }

    pub(super) fn selected(&self) -> Option<&RouteLine> {
        self.routes().get(self.row()?)
    }

    /// Returns the rates of a route in tenths per second, oldest first.
    pub(super) fn pace(&self, route: &RouteLine) -> Vec<u64> {
        self.pace.get(&name_of(route)).map(|pace| pace.tenths.iter().copied().collect()).unwrap_or_default()
    }

    /// Moves the selection down by a number of rows; it follows its route when other routes come or go.
    fn select(&mut self, further: isize) {
        let row = self.row().unwrap_or(0).saturating_add_signed(further);
        let row = row.min(self.routes().len().saturating_sub(1));
        self.selected = self.routes().get(row).map(name_of);
        if self.selected.is_none() && self.view == View::Route {
            self.view = View::Routes;
        }
    }
}

fn name_of(route: &RouteLine) -> Name {
    (route.store.clone(), route.route.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom_core::{RouteSpec, RouteState};
    use postroom_server::status::unasked;

    use super::*;

    fn report(routes: &[(&str, u64)]) -> Report {
        let route = |(name, delivered): &(&str, u64)| RouteLine {
            delivered: Some(*delivered),
            ..unasked("main", &RouteSpec::new(*name), RouteState::Running, "")
        };
        Report { routes: routes.iter().map(route).collect(), ..Report::default() }
    }

    fn press(model: &mut Model, code: KeyCode) -> KeyEffect {
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
        assert_eq!(press(&mut model, KeyCode::Enter), KeyEffect::Stay);
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
        assert_eq!((press(&mut model, KeyCode::Esc), model.view), (KeyEffect::Stay, View::Routes));
        assert_eq!(press(&mut model, KeyCode::Esc), KeyEffect::Quit);
        assert_eq!(press(&mut model, KeyCode::Char('q')), KeyEffect::Quit);
        assert_eq!(model.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), KeyEffect::Quit);
    }
}
