//! The kinds of transports. One line here per kind.

use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_relay::{Noop, Stdout};
use postroom_settings::{Key, absent};
use postroom_transport_kit::{Configured, Encoding, TransportKind};

/// Lists kinds as `"feature" "name" KIND;`. What this build lacks is known by its name.
macro_rules! kinds {
    ($($feature:literal $name:literal $kind:path;)*) => {
        const KINDS: &[Listed] = &[
            $(
                #[cfg(feature = $feature)]
                Listed::Here(&$kind),
                #[cfg(not(feature = $feature))]
                Listed::Absent(absent($name, concat!("transport `", $name, "`"), $feature)),
            )*
            Listed::Here(&STDOUT),
            Listed::Here(&NOOP),
        ];
    };
}

kinds! {
    "exec" "exec" postroom_exec::KIND;
    "kafka" "kafka" postroom_kafka::KIND;
    "rabbitmq" "rabbitmq" postroom_rabbitmq::KIND;
    "nats" "nats" postroom_nats::KIND;
    "redis" "redis" postroom_redis::KIND;
    "webhook" "webhook" postroom_webhook::KIND;
    "file" "file" postroom_file::KIND;
    "http" "pull" postroom_pull::KIND;
}

/// A kind that some build has.
enum Listed {
    Here(&'static TransportKind),
    #[allow(dead_code, reason = "a build with all features lacks none")]
    Absent(Key),
}

/// The kinds that this build has.
pub(crate) fn kinds() -> impl Iterator<Item = &'static TransportKind> {
    KINDS.iter().filter_map(|listed| match listed {
        Listed::Here(kind) => Some(*kind),
        Listed::Absent(_) => None,
    })
}

/// The kind of this name, if this build has it.
pub(crate) fn kind(name: &str) -> Option<&'static TransportKind> {
    kinds().find(|kind| kind.name == name)
}

/// Whether events that are delivered there are kept nowhere: printed, or thrown away.
pub(crate) fn discards(kind: &TransportKind) -> bool {
    [STDOUT.name, NOOP.name].contains(&kind.name)
}

/// Whether the answer to an event is that of a handler that has done its work, and not that of a broker.
pub(crate) fn has_handlers(kind: &TransportKind) -> bool {
    ["exec", "pull"].contains(&kind.name)
}

/// Keys of `to`.
pub(crate) static TO: [Key; KINDS.len()] = {
    let mut keys = [NONE; KINDS.len()];
    let mut n = 0;
    while n < KINDS.len() {
        keys[n] = match &KINDS[n] {
            Listed::Here(kind) => kind.key(),
            Listed::Absent(key) => *key,
        };
        n += 1;
    }
    keys
};

/// Keys of `[transport]`: the kinds whose routes may have keys in common.
pub(crate) static SHARED: [Key; shared().1] = {
    let (all, _) = shared();
    let mut keys = [NONE; shared().1];
    let mut n = 0;
    while n < keys.len() {
        keys[n] = all[n];
        n += 1;
    }
    keys
};

const NONE: Key = absent("", "", "");

/// Keys of `[transport]`, and how many they are.
const fn shared() -> ([Key; KINDS.len()], usize) {
    let (mut keys, mut count, mut n) = ([NONE; KINDS.len()], 0, 0);
    while n < KINDS.len() {
        let key = match &KINDS[n] {
            Listed::Here(kind) => kind.shared_key(),
            Listed::Absent(key) => Some(*key),
        };
        if let Some(key) = key {
            keys[count] = key;
            count += 1;
        }
        n += 1;
    }
    (keys, count)
}

const STDOUT: TransportKind = TransportKind {
    name: "stdout",
    doc: "Standard output, one envelope per line.",
    shared: None,
    keys: &[],
    codes: &[],
    headers: false,
    signed_by: &[],
    read: |_, _| Some(Box::new(ToStdout)),
    together: None,
};

const NOOP: TransportKind = TransportKind {
    name: "noop",
    doc: "No destination; every event counts as delivered at once.",
    read: |_, _| Some(Box::new(ToNowhere)),
    ..STDOUT
};

/// `to = { stdout = {} }`.
#[derive(Debug)]
struct ToStdout;

/// `to = { noop = {} }`.
#[derive(Debug)]
struct ToNowhere;

impl Configured for ToStdout {
    fn describe(&self) -> String {
        STDOUT.name.to_owned()
    }

    fn build(&self, _: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Stdout::new(encoding.encoder(Binding::Http)))
    }
}

impl Configured for ToNowhere {
    fn describe(&self) -> String {
        NOOP.name.to_owned()
    }

    fn build(&self, _: &str, _: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Noop)
    }
}
