//! How a delivery can fail. The kind answers the only question the relay asks: try again, give up, or stop asking?

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest error text that is kept, in bytes; what a receiver says is cut here.
pub const ERROR_BYTES_MAX: usize = 2048;

/// What the relay does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// This event again later; an attempt is counted.
    Transient,
    /// Never again by itself: a dead letter now.
    Permanent,
    /// The destination is down: the route pauses, no attempt is counted, nothing dies.
    Unavailable,
}

/// One handler's share of a failure, where several handlers took the same event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandlerError {
    /// Name of the handler.
    pub handler: String,
    /// What it said.
    pub error: String,
}

/// Why a delivery did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the relay does about it.
    pub kind: FailureKind,
    /// A stable code, for instance `exec.timeout`; what people group and explain by.
    pub code: Cow<'static, str>,
    /// One line for people. May quote the receiver, never our secrets.
    pub error: String,
    /// The receiver's own wish when to be asked again.
    pub retry_after: Option<Duration>,
    /// Whether the receiver is gone for good: the route is held until an operator resumes it.
    pub disables: bool,
    /// Whether the event is only too early: it stays pending with the reason, no attempt is counted, it never dies of this.
    pub waits: bool,
    /// Errors per handler, where several took the event.
    pub handlers: Vec<HandlerError>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            error: cut(&error.into()),
            retry_after: None,
            disables: false,
            waits: false,
            handlers: Vec::new(),
        }
    }

    /// This event again later.
    pub fn transient(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Transient, code, error)
    }

    /// Never again by itself.
    pub fn permanent(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, code, error)
    }

    /// The destination is down.
    pub fn unavailable(code: impl Into<Cow<'static, str>>, error: impl Into<String>) -> Self {
        Self::new(FailureKind::Unavailable, code, error)
    }

    /// Adds the receiver's wish when to be asked again.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Says that the receiver is gone for good and wants nothing more; only with [`FailureKind::Unavailable`].
    pub fn disables(mut self) -> Self {
        self.disables = true;
        self
    }

    /// Says that the event is only too early for this receiver; only with [`FailureKind::Transient`].
    pub fn waits(mut self) -> Self {
        self.waits = true;
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
