//! Codes: Everything else.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Everything else",
    about: "",
    codes: &[
        Code {
            code: "stdout.closed",
            kind: "unavailable",
            cause: "nobody reads the pipe any more, or the relay stopped",
            next: "start the reader again",
        },
        Code {
            code: "stdout.failed",
            kind: "unavailable",
            cause: "stdout cannot be written",
            next: "the text has the system's reason: a full disk",
        },
        Code {
            code: "stdout.not_json",
            kind: "permanent",
            cause: "the envelope is not JSON and may not fit one line",
            next: "`envelope = \"cloudevents-structured\"`, then replay",
        },
        Code {
            code: "envelope.not_json",
            kind: "permanent",
            cause: "the payload is not JSON, but its content type says so or the route's `fields` want it",
            next: "narrow the route, or use `cloudevents-structured`; a payload broken by a plain SQL insert must be appended again",
        },
        Code {
            code: "envelope.json",
            kind: "permanent",
            cause: "the envelope could not be written",
            next: "tell us, with the event's type",
        },
        Code {
            code: "layout.abandoned",
            kind: "permanent",
            cause: "a row of an adopted table was claimed more often than `claimed.claims_max` allows, and never finished",
            next: "whoever handles it dies of it; look at its logs, then replay",
        },
        Code {
            code: "layout.unreadable",
            kind: "permanent",
            cause: "a row of an adopted table holds no event: no id, no payload, or over a limit",
            next: "the text names the place; correct the row or the layout, then replay",
        },
        Code {
            code: "template.missing",
            kind: "permanent",
            cause: "a name is made from a part that this event does not have",
            next: "narrow the route with `match`, or use another part; then replay",
        },
        Code {
            code: "template.value",
            kind: "permanent",
            cause: "a part of the event holds a character that would change the structure of the name",
            next: "the text names the part and the character; only types may hold dots",
        },
        Code {
            code: "transport.silent",
            kind: "unavailable",
            cause: "`config check --online` had no answer within 30 s",
            next: "look at the network between here and there",
        },
        Code {
            code: "transport.dropped",
            kind: "transient",
            cause: "a transport lost the delivery without a word: a bug of the transport",
            next: "it is tried again; tell its author",
        },
    ],
};
