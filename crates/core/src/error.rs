//! What can go wrong between us and a store, by what the caller can do about it.

use std::error::Error;
use std::fmt;

use crate::limits::EventError;

/// Kind of a store error, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store is not reachable: refused, timed out, no such file. Retry later.
    Unreachable,
    /// Another session holds a lock that is needed. Retry soon.
    Busy,
    /// The store is not what was expected: not a database, or a foreign schema.
    UnexpectedSchema,
    /// A privilege is missing: read-only file, no grant.
    PermissionDenied,
    /// The schema is missing, older or newer than this build.
    Schema,
    /// The disk is full, or a quota is used up.
    StorageFull,
    /// The caller's transaction began with a read and cannot become a writer now.
    ReadBeforeWrite,
    /// The connection was lost at commit, which may or may not have happened.
    CommitUnknown,
    /// The input cannot be stored.
    Invalid,
    /// The named object does not exist.
    NotFound,
    /// The call conflicts with the current state: another definition of the route, a live owner.
    Conflict,
    /// Any other error.
    Other,
}

/// Error of a store: kind, operation, and cause.
#[derive(Debug)]
pub struct StoreError {
    /// Kind of the error.
    pub kind: StoreErrorKind,
    /// Operation that failed, for instance `append`.
    pub operation: &'static str,
    /// Message of one line for people, which names thing and value.
    pub message: String,
    /// Next step for people; may be empty.
    pub hint: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of this kind.
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

    /// Reports whether the same call may succeed later without any action.
    pub fn is_transient(&self) -> bool {
        use StoreErrorKind as K;
        matches!(self.kind, K::Unreachable | K::Busy | K::StorageFull | K::CommitUnknown | K::Other)
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
