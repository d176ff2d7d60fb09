//! Codes of contracts.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of contracts.
pub const CODES: &[Section] = &[Section {
    title: "Contracts",
    about: "",
    codes: codes! {
        "contract.violated" | "permanent" | "the payload does not match the schema of its event type; the text has paths and keywords" | "fix the producer, or [the schema](contracts.md), restart the relay, then `postroom dead replay --code contract.violated`"
    },
}];
