//! Codes: Your handler's word.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Your handler's word",
    about: "",
    codes: &[
        Code {
            code: "exec.error",
            kind: "its choice",
            cause: "the program answered `error`",
            next: "the text is the program's; mend, then `postroom dead replay --code exec.error`",
        },
        Code {
            code: "handler.error",
            kind: "transient",
            cause: "the handler returned an ordinary error",
            next: "the text is the error with its causes; return `Failure::permanent` for what can never work",
        },
        Code {
            code: "handler.panicked",
            kind: "transient",
            cause: "the handler panicked",
            next: "the message is on the process's stderr, not here: it may quote the payload",
        },
        Code {
            code: "handler.timeout",
            kind: "transient",
            cause: "not done within `Handlers::timeout`",
            next: "make it faster or the time longer; a handler that blocks its thread needs `spawn_blocking`",
        },
        Code {
            code: "handler.missing",
            kind: "transient",
            cause: "the route wants the type, no handler does: a newer program may; the event waits and no attempt is counted",
            next: "upgrade the program, add a handler, or narrow the route's filter",
        },
        Code {
            code: "handler.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
    ],
};
