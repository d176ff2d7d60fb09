//! Codes: Contracts.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Contracts",
    about: "",
    codes: &[Code {
        code: "contract.violated",
        kind: "permanent",
        cause: "the event is not what the schema of its type says; the text has paths and keywords",
        next: "mend the producer, or [the schema](contracts.md), restart the relay, then `postroom dead replay --code contract.violated`",
    }],
};
