//! Codes of handlers in this process, and of stdout.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of handlers in this process, and of stdout.
pub const CODES: &[Section] = &[
    Section {
        title: "Handlers in your process",
        about: "",
        codes: codes! {
            "handler.error" | "transient" | "the handler returned an ordinary error" | "the text is the error with its causes; return `Failure::permanent` for events that can never succeed"
            "handler.panicked" | "transient" | "the handler panicked" | "the message is on the process's stderr, not here: it may quote the payload"
            "handler.timeout" | "transient" | "the handler did not finish within `Handlers::timeout`" | "make the handler faster or the time-out longer; a handler that blocks its thread needs `spawn_blocking`"
            "handler.missing" | "transient" | "the route matches the event type, but no handler does; a newer program may have one, so the event waits and no attempt is counted" | "upgrade the program, add a handler, or narrow the route's filter"
            "handler.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
        },
    },
    Section {
        title: "Other codes",
        about: "",
        codes: codes! {
            "stdout.closed" | "unavailable" | "the reader of the pipe is gone, or the relay stopped" | "start the reader again"
            "stdout.failed" | "unavailable" | "stdout cannot be written" | "the text has the system's reason: a full disk"
            "stdout.not_json" | "permanent" | "the envelope is not JSON and may not fit on one line" | "`envelope = \"cloudevents-structured\"`, then replay"
        },
    },
];
