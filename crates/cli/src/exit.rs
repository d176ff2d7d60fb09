//! How a command ends: its exit code, and what a person is told when it did not work.
//!
//! The one place where a store's error becomes an exit code. Who may be asked what is [`crate::confirm`].

use std::error::Error;
use std::io;
use std::process::ExitCode;

use postroom_core::{EventError, StoreError, StoreErrorKind};

/// What a command gives back.
pub(crate) type Outcome = Result<Exit, Failed>;

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// Usage, configuration, an unreadable file, bad input.
    Usage = 2,
    /// The store cannot be reached.
    Unreachable = 3,
    /// Refused: a right, the schema, a conflict, no confirmation.
    Refused = 4,
    /// Some of it.
    Partly = 5,
    /// A check found a difference.
    CheckFailed = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The exit code of a store's error.
pub(crate) fn code_of(kind: StoreErrorKind) -> Exit {
    use StoreErrorKind as K;
    match kind {
        // A lock that is not given up in time is a time-out to whoever waits.
        K::Unreachable | K::Busy | K::NotAStore => Exit::Unreachable,
        K::Refused | K::Schema | K::Conflict => Exit::Refused,
        K::Invalid => Exit::Usage,
        K::Full | K::LateWriteLock | K::CommitUnknown | K::NotFound | K::Other => Exit::Failed,
    }
}

/// One thing that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Names the thing and the value.
    pub(crate) message: String,
    /// The next step; may be empty.
    pub(crate) hint: String,
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failed {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// What is wrong; empty when there is nobody left to tell.
    pub(crate) problems: Vec<Problem>,
    causes: Vec<String>,
}

impl Failed {
    /// One problem.
    pub(crate) fn new(exit: Exit, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let problem = Problem { message: message.into(), hint: hint.into() };
        Self { exit, problems: vec![problem], causes: Vec::new() }
    }

    /// Several problems at once, as a configuration has them.
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

    /// What a person is told, causes only when `verbose`.
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

/// Writing the output failed. A reader that has seen enough (`| head`) is no failure.
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
            (K::NotAStore, 3),
            (K::Refused, 4),
            (K::Schema, 4),
            (K::Conflict, 4),
            (K::Invalid, 2),
            (K::Full, 1),
            (K::LateWriteLock, 1),
            (K::CommitUnknown, 1),
            (K::NotFound, 1),
            (K::Other, 1),
        ] {
            assert_eq!(code_of(kind) as u8, code, "{kind:?}");
        }
    }

    fn told(verbose: bool) -> String {
        let cause = io::Error::other("disk on fire");
        let error =
            StoreError::new(StoreErrorKind::Full, "append", "no room in shop.db").hint("free some").caused_by(cause);
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
