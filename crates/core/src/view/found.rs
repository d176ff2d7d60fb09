//! What checks find out: of a store, of a route, of a whole configuration.

use serde::Serialize;

/// How good something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// It works, but promises less than people may expect.
    Warning,
    /// It does not work, or would not.
    Problem,
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The store it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The route it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// How good it is.
    pub level: Level,
    /// A stable code; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it is.
    pub message: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The SQL or the command that mends it, as it can be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Found {
    /// Something that is as it should be.
    pub fn fine(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { store: None, route: None, level: Level::Fine, code: None, message, hint: None, mend: None }
    }

    /// Something that promises less than people may expect.
    pub fn warning(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, code: Some(code.into()), ..Self::fine(message) }
    }

    /// Something that does not work.
    pub fn problem(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Problem, code: Some(code.into()), ..Self::fine(message) }
    }

    /// Adds the next step; an empty one is none.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }

    /// Adds what mends it.
    #[must_use]
    pub fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
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
