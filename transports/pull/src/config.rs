//! `to = { pull = { … } }`.

use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_settings::{Key, Kind, Node, SOME, key, optional};
use postroom_transport_kit::{Configured, Encoding, TargetReader, TransportKind};

use crate::{CODES, Pull, PullOptions};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "pull",
    doc: "Workers in any language, which fetch events over HTTP.",
    shared: None,
    keys: KEYS,
    codes: CODES,
    headers: false,
    signed_by: &[],
    read,
    together: None,
};

static KEYS: &[Key] = &[
    key(
        "lease",
        SOME,
        r#""30s""#,
        "Time that a worker may take for leased events, unless its request asks for another time.",
    ),
    optional(
        "lease_max",
        SOME,
        r#""10m""#,
        "Longest time that a worker may ask for, for itself and a batch of events; by default the time of `lease`.",
    ),
    key("in_flight", Kind::Count, "256", "Maximum number of events that wait for workers or are leased."),
];

impl Configured for PullOptions {
    fn describe(&self) -> String {
        KIND.name.to_owned()
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Pull::new(route, *self, encoding.encoder(Binding::Http)))
    }
}

fn read(_: &mut TargetReader<'_>, node: &Node) -> Option<Box<dyn Configured>> {
    let parts = node.table()?;
    let (lease, lease_max) = (parts.duration("lease"), parts.duration("lease_max"));
    Some(Box::new(PullOptions { lease, lease_max, in_flight: parts.count("in_flight") }))
}
