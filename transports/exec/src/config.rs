//! `to = { exec = { … } }`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::User;
use postroom_core::envelope::Binding;
use postroom_core::{Secret, Transport};
use postroom_settings::{Key, Kind, Node, SOME, Table, key, optional};
use postroom_transport_kit::{Configured, Encoding, TargetReader, TransportKind};

use crate::{CODES, Environment, Exec, ExecOptions, Target};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "exec",
    doc: "Child process that speaks JSON lines.",
    shared: None,
    keys: KEYS,
    codes: CODES,
    headers: false,
    signed_by: &[],
    read,
    together: None,
};

static KEYS: &[Key] = &[
    optional("command", Kind::List(&Kind::Text), r#"["python3", "mailer.py"]"#, "Program and its arguments."),
    optional("socket", Kind::Path, r#""/run/mailer.sock""#, "Unix socket to connect to, instead of `command`."),
    optional(
        "pass_env",
        Kind::Listing(&Kind::Text),
        r#"["SMTP_HOST"]"#,
        "Variables of the relay that the program gets beside PATH, HOME, USER, LANG, LC_*, TZ and TMPDIR.",
    ),
    optional(
        "env",
        Kind::Open(&Kind::Password),
        r#"{ SMTP_PASSWORD = "${SMTP_PASSWORD}" }"#,
        "Variables that the program gets, with their values.",
    ),
    optional(
        "socket_user",
        Kind::Text,
        r#""mailer""#,
        "User that listens on `socket`, by name or number, if it is neither root nor the relay's user.",
    ),
    key("in_flight", Kind::Count, "64", "Maximum number of events that the process has not answered."),
    key("timeout", SOME, r#""30s""#, "Time-out of an answer."),
];

/// Configuration of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecConfig {
    /// Program or socket that answers. A program runs in the working folder.
    pub target: Target,
    /// Maximum number of unanswered events.
    pub in_flight: usize,
    /// Time-out of an answer.
    pub timeout: Duration,
    /// Environment of a program.
    pub environment: Environment,
    /// User that may listen on a socket beside root and the relay's own.
    pub socket_user: Option<u32>,
}

impl Configured for ExecConfig {
    /// Of a command only what cannot be a password: the program, and a script's path.
    fn describe(&self) -> String {
        match &self.target {
            Target::Socket(path) => format!("exec {}", path.display()),
            Target::Command(command) => {
                let script = command.get(1).filter(|argument| is_script(argument));
                let shown = command.first().into_iter().chain(script).map(String::as_str);
                format!("exec {}", shown.collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        let options = ExecOptions::new(route, self.target.clone(), encoding.encoder(Binding::Http));
        let environment = self.environment.clone();
        let (in_flight, timeout, socket_user) = (self.in_flight, self.timeout, self.socket_user);
        Arc::new(Exec::new(ExecOptions { in_flight, timeout, environment, socket_user, ..options }))
    }
}

fn is_script(argument: &str) -> bool {
    let suffix = argument.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    let short = (1..=4).contains(&suffix.len()) && suffix.chars().all(|c| c.is_ascii_lowercase());
    short && !argument.starts_with('-') && !argument.contains([':', '=', '@'])
}

fn read(reader: &mut TargetReader<'_>, exec: &Node) -> Option<Box<dyn Configured>> {
    let parts = exec.table()?;
    let environment = environment(reader, parts);
    let socket_user = parts.get("socket_user").and_then(|node| user(reader, node));
    let target = match (parts.get("command"), parts.get("socket")) {
        (Some(command), None) => {
            Target::Command(command.list()?.iter().filter_map(|n| n.text().map(str::to_owned)).collect())
        }
        (None, Some(socket)) => Target::Socket(PathBuf::from(socket.text()?)),
        // A mistyped key has been reported; it was meant to be one of the two.
        (None, None) if parts.0.iter().any(|e| !OPTIONAL.contains(&e.name.as_str())) => {
            return None;
        }
        (both, _) => {
            let said = if both.is_some() { "has both `command` and `socket`" } else { "has no `command`" };
            let variable = reader.variable("exec.command");
            let hint = format!(
                "give command = [\"program\", \"argument\"] or socket = \"path\"; or set {variable}='[\"program\"]'"
            );
            reader.problems.at(&exec.place, format!("the exec of route `{}` {said}", reader.route), Some(hint));
            return None;
        }
    };
    let (in_flight, timeout) = (parts.count("in_flight"), parts.duration("timeout"));
    Some(Box::new(ExecConfig { target, in_flight, timeout, environment, socket_user }))
}

/// Keys that say nothing of the destination.
const OPTIONAL: [&str; 5] = ["in_flight", "timeout", "env", "pass_env", "socket_user"];

fn environment(reader: &mut TargetReader<'_>, parts: &Table) -> Environment {
    let mut environment = Environment::default();
    for node in parts.get("pass_env").and_then(Node::list).unwrap_or_default() {
        environment.pass.extend(node.text().and_then(|name| variable(reader, node, name)));
    }
    for entry in parts.table("env").map(|table| table.0.as_slice()).unwrap_or_default() {
        if let (Some(name), Some(value)) = (variable(reader, &entry.node, &entry.name), entry.node.text()) {
            environment.set.insert(name, Secret::new(value));
        }
    }
    environment
}

/// A name that an environment can have; nothing when it was reported.
fn variable(reader: &mut TargetReader<'_>, node: &Node, name: &str) -> Option<String> {
    if !name.is_empty() && !name.contains(['=', '\0']) {
        return Some(name.to_owned());
    }
    let hint = Some("write a name such as SMTP_HOST; values stand in `env`".to_owned());
    reader.problems.at(&node.place, format!("{name:?} is no name of an environment variable"), hint);
    None
}

/// The number of a user; nothing when it was reported.
fn user(reader: &mut TargetReader<'_>, node: &Node) -> Option<u32> {
    let text = node.text().filter(|text| !text.is_empty())?;
    let known = || User::from_name(text).ok().flatten().map(|user| user.uid.as_raw());
    let found = text.parse().ok().or_else(known);
    if found.is_none() {
        let hint = Some("write the name or the number of the user that the handler runs as".to_owned());
        reader.problems.at(&node.place, format!("there is no user {text:?} on this machine"), hint);
    }
    found
}
