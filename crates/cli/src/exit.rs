//! Exit codes of commands, and the error messages for people.
//!
//! Only this file maps a store's error to an exit code. Questions to the user are [`crate::confirm`].

use std::error::Error;
use std::io;
use std::process::ExitCode;

use postroom_core::{EventError, StoreError, StoreErrorKind};

/// Result of a command.
pub(crate) type Outcome = Result<Exit, Failed>;

/// Documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// Usage, configuration, an unreadable file, bad input.
    Usage = 2,
    /// Store not reachable.
    Unreachable = 3,
    /// Refused: a right, the schema, a conflict, no confirmation.
    Refused = 4,
    /// Partly done.
    Partly = 5,
    /// A check found a difference.
    CheckFailed = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Returns the exit code of a store's error.
pub(crate) fn code_of(kind: StoreErrorKind) -> Exit {
    use StoreErrorKind as K;
    match kind {
        // A lock that is not given up in time is a time-out to whoever waits.
        K::Unreachable | K::Busy | K::UnexpectedSchema => Exit::Unreachable,
        K::PermissionDenied | K::Schema | K::Conflict => Exit::Refused,
        K::Invalid => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// Problem with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Message that names the thing and the value.
    pub(crate) message: String,
    /// Next step; may be empty.
    pub(crate) hint: String,
}

/// Failure of a command.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Exit code of the process.
    pub(crate) exit: Exit,
    /// Problems to report; empty if the reader of the output is gone.
    pub(crate) problems: Vec<Problem>,
    causes: Vec<String>,
}

impl Failed {
    /// Creates a failure with one problem.
    pub(crate) fn new(exit: Exit, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let problem = Problem { message: message.into(), hint: hint.into() };
        Self { exit, problems: vec![problem], causes: Vec::new() }
    }

    /// Creates a failure with several problems, as a configuration has them.
    pub(crate) fn several(exit: Exit, problems: Vec<Problem>) -> Self {
        Self { exit, problems, causes: Vec::new() }
    }

    /// Keeps the chain of causes, for `-v`.
    pub(crate) fn caused_by(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            self.causes.push(cause.to_string());
            next = cause.source();
        }
        self
    }

    /// Renders the message for people, with causes only if `verbose`.
    pub(crate) fn report(&self, verbose: bool) -> String {
        let mut lines = Vec::new();
        for problem in &self.problems {
            lines.push(format!("error: {}\n", problem.message));
            if verbose {
                lines.extend(self.causes.iter().map(|cause| format!("  caused by: {cause}\n")));
            }
            if !problem.hint.is_empty() {
                lines.push(format!("hint: {}\n", problem.hint));
            }
        }
        lines.concat()
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let failed = Self::new(code_of(error.kind), &error.message, &error.hint);
        match error.source() {
            Some(cause) => failed.caused_by(cause),
            None => failed,
        }
    }
}

impl From<EventError> for Failed {
    fn from(error: EventError) -> Self {
        Self::new(Exit::Usage, error.to_string(), error.hint())
    }
}

/// Converts an error of writing the output. A reader that has closed the pipe (`| head`) is no failure.
impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::Done, problems: Vec::new(), causes: Vec::new() };
        }
        Self::new(Exit::Failed, format!("cannot write the output: {error}"), "check where stdout goes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_store_error_has_its_documented_code() {
        use StoreErrorKind as K;
        for (kind, code) in [
            (K::Unreachable, 3),
            (K::Busy, 3),
            (K::UnexpectedSchema, 3),
            (K::PermissionDenied, 4),
            (K::Schema, 4),
            (K::Conflict, 4),
            (K::Invalid, 2),
            (K::StorageFull, 1),
            (K::ReadBeforeWrite, 1),
            (K::CommitUnknown, 1),
            (K::NotFound, 1),
            (K::Other, 1),
        ] {
            assert_eq!(code_of(kind) as u8, code, "{kind:?}");
        }
    }

    fn told(verbose: bool) -> String {
        let cause = io::Error::other("disk on fire");
        let error = StoreError::new(StoreErrorKind::StorageFull, "append", "no room in shop.db")
            .hint("free some")
            .caused_by(cause);
        Failed::from(error).report(verbose)
    }

    #[test]
    fn a_person_reads_the_error_and_the_next_step_and_the_causes_only_on_request() {
        assert_eq!(told(false), "error: no room in shop.db\nhint: free some\n");
        assert_eq!(told(true), "error: no room in shop.db\n  caused by: disk on fire\nhint: free some\n");
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let failed = Failed::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(failed.exit == Exit::Done && failed.problems.is_empty());
    }
}
