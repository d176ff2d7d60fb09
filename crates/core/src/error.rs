//! What can go wrong between us and a store, by what the caller can do about it.

use std::error::Error;
use std::fmt;

use crate::limits::EventError;

/// What the caller can do about a store error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreErrorKind {
    /// Not reachable now: refused, timed out, no such file. Try again later.
    Unreachable,
    /// Somebody else holds what we need. Try again soon.
    Busy,
    /// It is not what we expect: not a database, a foreign schema.
    NotAStore,
    /// A right is missing: read-only file, no grant.
    Refused,
    /// The schema is missing, older or newer than this build.
    Schema,
    /// No room.
    Full,
    /// The caller's transaction began with a read and cannot become a writer now.
    LateWriteLock,
    /// The connection was lost at commit; it may or may not have happened.
    CommitUnknown,
    /// The input cannot be stored.
    Invalid,
    /// What was named is not there.
    NotFound,
    /// Two parties disagree: another definition of the route, a live owner.
    Conflict,
    /// Anything else.
    Other,
}

/// An error of a store: kind, operation, and cause.
#[derive(Debug)]
pub struct StoreError {
    /// What the caller can do about it.
    pub kind: StoreErrorKind,
    /// What was being done, for instance `append`.
    pub operation: &'static str,
    /// One line for people, naming thing and value.
    pub message: String,
    /// The next step for people; may be empty.
    pub hint: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(kind: StoreErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self { kind, operation, message: message.into(), hint: String::new(), source: None }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Keeps the cause.
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Whether the same call may succeed later without anybody's doing.
    pub fn is_transient(&self) -> bool {
        use StoreErrorKind as K;
        matches!(self.kind, K::Unreachable | K::Busy | K::Full | K::CommitUnknown | K::Other)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|e| &**e as &(dyn Error + 'static))
    }
}

impl From<EventError> for StoreError {
    fn from(error: EventError) -> Self {
        let hint = error.hint();
        Self::new(StoreErrorKind::Invalid, "append", error.to_string()).hint(hint)
    }
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(StoreErrorKind::Invalid, "append", format!("event payload cannot be written as JSON: {error}"))
    }
}
