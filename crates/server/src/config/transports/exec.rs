//! `to = { exec = { … } }`.

use std::path::PathBuf;
use std::time::Duration;

use super::super::keys::{Key, Kind, SOME, key, optional};
use super::super::path::spelt;
use super::super::read::Read;
use super::super::tree::Node;

pub(super) static KEYS: &[Key] = &[
    optional("command", Kind::List(&Kind::Text), r#"["python3", "mailer.py"]"#, "The program and its arguments."),
    optional("socket", Kind::Path, r#""/run/mailer.sock""#, "A unix socket to connect to, instead of `command`."),
    key("in_flight", Kind::Count, "64", "Most events the process is given before it has answered."),
    key("timeout", SOME, r#""30s""#, "How long an answer may take."),
];

/// `to = { exec = { … } }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecTarget {
    /// Who answers.
    pub peer: ExecPeer,
    /// Most events given before they are answered.
    pub in_flight: usize,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Who answers an `exec` route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecPeer {
    /// A program and its arguments, run in the working folder.
    Command(Vec<String>),
    /// A unix socket.
    Socket(PathBuf),
}

impl ExecTarget {
    /// Of a command only what cannot be a password: the program, and a script's path.
    pub(super) fn describe(&self) -> String {
        match &self.peer {
            ExecPeer::Socket(path) => path.display().to_string(),
            ExecPeer::Command(command) => {
                let script = command.get(1).filter(|argument| is_script(argument));
                let shown = command.first().into_iter().chain(script).map(String::as_str);
                shown.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

fn is_script(argument: &str) -> bool {
    let suffix = argument.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    let short = (1..=4).contains(&suffix.len()) && suffix.chars().all(|c| c.is_ascii_lowercase());
    short && !argument.starts_with('-') && !argument.contains([':', '=', '@'])
}

impl Read<'_> {
    pub(super) fn exec(&mut self, route: &str, exec: &Node) -> Option<ExecTarget> {
        let parts = exec.table()?;
        let peer = match (parts.get("command"), parts.get("socket")) {
            (Some(command), None) => {
                ExecPeer::Command(command.list()?.iter().filter_map(|n| n.text().map(str::to_owned)).collect())
            }
            (None, Some(socket)) => ExecPeer::Socket(PathBuf::from(socket.text()?)),
            // A mistyped key has been reported; it was meant to be one of the two.
            (None, None) if parts.0.iter().any(|e| !["in_flight", "timeout"].contains(&e.name.as_str())) => {
                return None;
            }
            (both, _) => {
                let said = if both.is_some() { "has both `command` and `socket`" } else { "has no `command`" };
                let variable = format!("POSTROOM_ROUTE__{}__TO__EXEC__COMMAND", spelt(route));
                let hint = format!(
                    "give command = [\"program\", \"argument\"] or socket = \"path\"; or set {variable}='[\"program\"]'"
                );
                self.problems.at(&exec.place, format!("the exec of route `{route}` {said}"), Some(hint));
                return None;
            }
        };
        Some(ExecTarget { peer, in_flight: parts.count("in_flight"), timeout: parts.duration("timeout") })
    }
}
