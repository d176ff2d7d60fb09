//! Who runs this command, as the audit will name them: `user@host`.

use std::env;
use std::fs;

use postroom_core::Actor;

use crate::args::Reason;

/// The person at the keyboard, with their reason.
pub(crate) fn actor(reason: &Reason) -> Actor {
    Actor { name: format!("{}@{}", user(), host()), reason: reason.reason.clone() }
}

fn user() -> String {
    let set = |name| env::var(name).ok().filter(|v| !v.is_empty());
    set("USER").or_else(|| set("LOGNAME")).unwrap_or_else(|| "unknown".to_owned())
}

fn host() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| env::var("HOSTNAME").ok()).map(|h| h.trim().to_owned());
    name.filter(|h| !h.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}
