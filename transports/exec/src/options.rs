//! What an exec transport is told.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use postroom_core::Secret;
use postroom_core::envelope::Encoder;

/// Options of an exec transport.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecOptions {
    /// Program or socket that gets the events.
    pub target: Target,
    /// Name of the route, which is part of every line.
    pub route: String,
    /// Maximum number of events that the child has not answered.
    ///
    /// Too small and a child that works in parallel idles; too large and one death repeats much.
    ///
    /// Defaults to 64.
    pub in_flight: usize,
    /// Time-out of an answer, after which the child is killed and restarted.
    ///
    /// Too short and slow work is killed half done; too long and a hung child holds its route.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
    /// Environment of a child process.
    pub environment: Environment,
    /// User that listens on a socket beside root and the relay's own: another user's listener gets no event.
    pub socket_user: Option<u32>,
    /// Encoder of the envelope in each line; must encode to JSON.
    pub encoder: Encoder,
}

impl ExecOptions {
    /// Creates options with the defaults.
    pub fn new(route: impl Into<String>, target: Target, encoder: Encoder) -> Self {
        Self {
            target,
            route: route.into(),
            in_flight: 64,
            timeout: Duration::from_secs(30),
            environment: Environment::default(),
            socket_user: None,
            encoder,
        }
    }
}

/// Variables of a child process. By default those that every program expects: `PATH`, `HOME`, `USER`, `LANG`, `LC_*`, `TZ` and `TMPDIR`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// Further variables of the relay that the child gets, too.
    pub pass: Vec<String>,
    /// Variables with their values.
    pub set: BTreeMap<String, Secret>,
}

/// Variables that every program expects, and that hold no secrets.
const USUAL: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"];

impl Environment {
    /// Whether a variable of the relay is the child's too.
    pub(crate) fn passes(&self, name: &OsStr) -> bool {
        name.as_encoded_bytes().starts_with(b"LC_")
            || USUAL.iter().any(|usual| name == *usual)
            || self.pass.iter().any(|passed| name == passed.as_str())
    }
}

/// Program or socket that gets the events.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A child process: the program, then its arguments. No shell is involved.
    Command(Vec<String>),
    /// Whoever listens on this unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Target {
    /// Names the program or the socket; arguments may hold secrets and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "command {:?}", command.first().map_or("", String::as_str)),
            Self::Socket(path) => write!(f, "socket {}", path.display()),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gets_what_every_program_expects_and_what_it_was_promised() {
        let environment = Environment { pass: vec!["SMTP_HOST".to_owned()], ..Environment::default() };
        for name in ["PATH", "LC_ALL", "TZ", "SMTP_HOST"] {
            assert!(environment.passes(OsStr::new(name)), "{name}");
        }
        for name in ["PGPASSWORD", "DATABASE_URL", "POSTROOM_STORE__MAIN__URL", "PATHS", "LD_PRELOAD", "LC"] {
            assert!(!environment.passes(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn arguments_are_never_shown_because_they_may_hold_secrets() {
        let target = Target::Command(vec!["mailer".into(), "--password=canary".into()]);
        assert_eq!(format!("{target} {target:?}"), "command \"mailer\" command \"mailer\"");
    }
}
