//! User who runs the command, as the audit log names them: `user@host`.

use std::env;
use std::fs;

use nix::unistd::{User, getuid};
use postroom_core::Actor;

use crate::options::Reason;

/// Returns the user who runs the command, with their reason.
pub(crate) fn actor(reason: &Reason) -> Actor {
    Actor { name: format!("{}@{}", user(), host()), reason: reason.reason.clone() }
}

/// The user behind sudo, of the session, or of the process: cron, systemd and containers set no variable.
fn user() -> String {
    let set = |name| env::var(name).ok().filter(|v| !v.is_empty());
    let uid = getuid();
    let behind_sudo = if uid.is_root() { set("SUDO_USER") } else { None };
    let session = behind_sudo.or_else(|| set("USER")).or_else(|| set("LOGNAME"));
    let account = || User::from_uid(uid).ok().flatten().map(|user| user.name);
    session.or_else(account).unwrap_or_else(|| format!("uid-{uid}"))
}

fn host() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| env::var("HOSTNAME").ok()).map(|h| h.trim().to_owned());
    name.filter(|h| !h.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}
