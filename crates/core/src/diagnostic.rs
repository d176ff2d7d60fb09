//! What checks find out: of a destination, a store, a route, a whole configuration.

use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::units::format_duration;

/// Level of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The check passed.
    Fine,
    /// It works, but guarantees less than people may expect.
    Warning,
    /// It does not work, or would not.
    Problem,
}

/// Diagnostic: the result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Name of the store that the diagnostic is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Name of the route that the diagnostic is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Level of the diagnostic.
    pub level: Level,
    /// Stable code; none if the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Message of the diagnostic.
    pub message: String,
    /// Next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// SQL or command that fixes the problem, ready to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Time in which the destination recognises a second copy of an event, from which a caller that knows the retries makes a warning.
    #[serde(skip)]
    pub duplicate_window: Option<DuplicateWindow>,
}

/// Time in which a destination recognises a second copy of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateWindow {
    /// Code of the warning that the window is too short.
    pub code: &'static str,
    /// Owner of the window: `stream orders`.
    pub what: String,
    /// Length of the window.
    pub lasts: Duration,
    /// Command that changes the window, up to the new duration.
    pub fix: String,
}

impl Diagnostic {
    /// Creates a diagnostic of a check that passed.
    pub fn fine(message: impl Into<String>) -> Self {
        Self {
            store: None,
            route: None,
            level: Level::Fine,
            code: None,
            message: message.into(),
            hint: None,
            fix: None,
            duplicate_window: None,
        }
    }

    /// Creates a warning.
    pub fn warning(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, code: Some(code.into()), ..Self::fine(message) }
    }

    /// Creates a problem.
    pub fn problem(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Problem, code: Some(code.into()), ..Self::fine(message) }
    }

    /// Creates a diagnostic with the time in which a second copy of an event is recognised.
    pub fn recognises(window: DuplicateWindow) -> Self {
        let lasts = format_duration(window.lasts);
        let message = format!("{} remembers ids for {lasts}: a second copy within that is not stored", window.what);
        Self { duplicate_window: Some(window), ..Self::fine(message) }
    }

    /// Adds the next step; an empty one is none.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }

    /// Adds what fixes it.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Says which store it is about.
    #[must_use]
    pub fn of_store(self, store: &str) -> Self {
        Self { store: Some(store.to_owned()), ..self }
    }

    /// Says which route it is about.
    #[must_use]
    pub fn of_route(self, route: &str) -> Self {
        Self { route: Some(route.to_owned()), ..self }
    }
}

impl From<Failure> for Diagnostic {
    /// Deliveries would fail like this.
    fn from(failure: Failure) -> Self {
        Self::problem(failure.code, failure.error)
    }
}
