//! What an exec transport is told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use postroom_core::envelope::Encoder;

/// Settings of one exec transport.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// Who gets the events.
    pub target: Target,
    /// Name of the route, as it stands in every line.
    pub route: String,
    /// Most events the child has at once without having answered them.
    ///
    /// Too small and a child that works in parallel idles; too large and one death repeats much.
    ///
    /// Defaults to 64.
    pub in_flight: usize,
    /// How long the child may take to answer an event before it is killed and started again.
    ///
    /// Too short and slow work is killed half done; too long and a hung child holds its route.
    ///
    /// Defaults to 30 seconds.
    pub timeout: Duration,
    /// How the envelope in each line looks; must encode to JSON.
    pub encoder: Encoder,
}

impl ExecOptions {
    /// Options with the defaults.
    pub fn new(route: impl Into<String>, target: Target, encoder: Encoder) -> Self {
        Self { target, route: route.into(), in_flight: 64, timeout: Duration::from_secs(30), encoder }
    }
}

/// Who gets the events.
#[derive(Clone, PartialEq, Eq)]
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
    fn arguments_are_never_shown_because_they_may_hold_secrets() {
        let target = Target::Command(vec!["mailer".into(), "--password=canary".into()]);
        assert_eq!(format!("{target} {target:?}"), "command \"mailer\" command \"mailer\"");
    }
}
