//! `to = { pull = { … } }`.

use postroom_pull::PullOptions;

use super::super::keys::{Key, Kind, SOME, key};
use super::super::tree::Node;

pub(super) static KEYS: &[Key] = &[
    key("lease", SOME, r#""30s""#, "How long a worker may take for what it leased, unless it asks for another time."),
    key("in_flight", Kind::Count, "256", "Most events that wait for workers or are leased."),
];

pub(super) fn pull(node: &Node) -> Option<PullOptions> {
    let parts = node.table()?;
    Some(PullOptions { lease: parts.duration("lease"), in_flight: parts.count("in_flight") })
}
