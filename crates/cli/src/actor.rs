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

/// Account of the process's real user id, with the user who called sudo: `ann as root`.
///
/// Everybody can set a variable of the environment, so none decides the name alone: `SUDO_USER` counts only where the
/// process is root, which could name itself anything, and stands beside the account.
fn user() -> String {
    let uid = getuid();
    let account = User::from_uid(uid).ok().flatten().map_or_else(|| format!("uid-{uid}"), |user| user.name);
    let behind_sudo = env::var("SUDO_USER").ok().filter(|user| uid.is_root() && !user.is_empty() && *user != account);
    match behind_sudo {
        Some(user) => format!("{user} as {account}"),
        None => account,
    }
}

fn host() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| env::var("HOSTNAME").ok()).map(|h| h.trim().to_owned());
    name.filter(|h| !h.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}
