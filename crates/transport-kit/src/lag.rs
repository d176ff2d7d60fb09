//! Keys of `consumers`, which say how the lag of a destination's consumers is read.

use std::time::Duration;

use postroom_core::LagOptions;
use postroom_settings::{Key, Kind, Node, Table, key};

use crate::reader::TargetReader;

/// Shortest pause between two reads.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// Key of the pause between two reads.
pub const LAG_EVERY: Key = key(
    "every",
    Kind::DurationOrNever,
    r#""30s""#,
    "Pause between two reads of the lag, at least 1s; never leaves it unread.",
);

impl TargetReader<'_> {
    /// Reads `consumers` of a destination; `names` is the key with the names of consumers. `None` if the lag is not to be read.
    pub fn lag(&mut self, destination: &Table, names: &str) -> Option<LagOptions> {
        let table = destination.table("consumers")?;
        let every = table.duration_or_never("every")?;
        if let Some(node) = table.get("every").filter(|_| every < EVERY_MIN) {
            let message = format!("`consumers.every` of route `{}` is shorter than 1s", self.route);
            self.problems.at(&node.place, message, Some("write for instance every = \"30s\", or \"never\"".to_owned()));
        }
        let listed = table.get(names).and_then(Node::list).unwrap_or_default();
        Some(LagOptions::default().every(every).names(listed.iter().filter_map(Node::text)))
    }
}
