//! Codes: Windows and guards, in your handlers.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Windows and guards, in your handlers",
    about: "[Inboxes](inbox.md) tells what they are.",
    codes: &[
        Code {
            code: "guard.refused",
            kind: "permanent",
            cause: "the step from the state it is in is not one of the allowed ones, or there is no such thing",
            next: "if an earlier event may still come, turn it into a transient failure; else mend, then replay",
        },
        Code {
            code: "window.held",
            kind: "transient",
            cause: "another process works on a copy of the event",
            next: "none: it is tried again when that claim is over",
        },
        Code {
            code: "window.late",
            kind: "–",
            cause: "the effect took longer than its claim, so another process may have done it too (`Once::Doubtful`)",
            next: "make `claim` longer than the slowest effect",
        },
        Code {
            code: "window.full",
            kind: "unavailable",
            cause: "as many events as `entries_max` are remembered",
            next: "raise it, or shorten the window",
        },
        Code {
            code: "window.invalid",
            kind: "permanent",
            cause: "a consumer without a name, or an id over 64 bytes",
            next: "name the consumer",
        },
    ],
};
