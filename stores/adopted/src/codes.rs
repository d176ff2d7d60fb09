//! Codes of adopted tables.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of adopted tables.
pub const CODES: &[Section] = &[Section {
    title: "Other codes",
    about: "",
    codes: codes! {
        "mapping.abandoned" | "permanent" | "a row of an adopted table was claimed more often than `claimed.claims_max` allows, and never finished" | "the program that handles the row crashes on it; read its log, then replay"
        "mapping.unreadable" | "permanent" | "a row of an adopted table holds no event: no id, no type, no payload, or a name that is too long" | "the text names the column; correct the row or the mapping, then replay"
    },
}];
