//! How a delivery can fail. The kind answers the only question the relay asks: try again, give up, or stop asking?

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest error text that is kept, in bytes; longer texts of receivers are cut.
pub const ERROR_BYTES_MAX: usize = 2048;

/// Kind of a failure, which decides how the relay reacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The event is retried later, and an attempt is counted.
    Transient,
    /// The event becomes a dead letter at once.
    Permanent,
    /// The destination is down: the route pauses, no attempt is counted, and no event becomes a dead letter.
    Unavailable,
    /// The receiver is gone for good: the route is disabled until an operator resumes it.
    Gone,
    /// The event is too early for this receiver: it stays pending with the reason, and no attempt is counted.
    NotYet,
    /// The event ended the program that handled it, or was not done in time: it is retried later, and an attempt is counted
    /// of which [`crate::RetryPolicy::crashes`] says how many there may be.
    Crashed,
}

impl FailureKind {
    /// Reports whether the destination failed, not the event, which is returned untried.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::Unavailable | Self::Gone)
    }

    /// Reports whether the event is retried automatically.
    pub fn is_retried(self) -> bool {
        matches!(self, Self::Transient | Self::NotYet | Self::Crashed)
    }
}

/// Error of one handler, if several handlers took the same event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandlerError {
    /// Name of the handler.
    pub handler: String,
    /// Text of the error.
    pub error: String,
}

/// Failure of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Stable code, for instance `exec.timeout`, for grouping and explanations.
    pub code: Cow<'static, str>,
    /// Message of one line for people. May quote the receiver, never Postroom's secrets.
    pub error: String,
    /// Delay that the receiver asked for.
    pub retry_after: Option<Duration>,
    /// Errors per handler, if several handlers took the event.
    pub handlers: Vec<HandlerError>,
}

impl Failure {
    /// Creates a failure of this kind.
    pub fn new(kind: FailureKind, code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self { kind, code: code.into(), error: cut(&error.into()), retry_after: None, handlers: Vec::new() }
    }

    /// Creates a transient failure: the event is retried later.
    pub fn transient(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Transient, code, error)
    }

    /// Creates a permanent failure: the event becomes a dead letter.
    pub fn permanent(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, code, error)
    }

    /// Creates a failure of an unavailable destination.
    pub fn unavailable(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Unavailable, code, error)
    }

    /// Creates a failure of a receiver that is gone for good.
    pub fn gone(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Gone, code, error)
    }

    /// Creates a failure of an event that is too early for its receiver.
    pub fn not_yet(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::NotYet, code, error)
    }

    /// Creates a failure of an event that ended the program that handled it.
    pub fn crashed(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Crashed, code, error)
    }

    /// Adds the delay that the receiver asked for.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

/// Any error of a handler is worth another try, unless it says otherwise.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(e) = cause {
            text.push_str(": ");
            text.push_str(&e.to_string());
            cause = e.source();
        }
        Self::transient("handler.error", text)
    }
}

/// One line of at most [`ERROR_BYTES_MAX`] bytes: control characters become spaces.
fn cut(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() > ERROR_BYTES_MAX {
        let mut end = ERROR_BYTES_MAX;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_is_one_line_of_bounded_length() {
        let failure = Failure::transient("x", format!("a\nb{}", "é".repeat(4000)));
        assert!(failure.error.starts_with("a b"));
        assert!(failure.error.len() <= ERROR_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn an_ordinary_error_is_transient_and_keeps_its_cause() {
        let failure = Failure::from(std::io::Error::other("disk on fire"));
        assert_eq!((failure.kind, failure.error.as_str()), (FailureKind::Transient, "disk on fire"));
    }
}
