//! Codes: pull.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "pull",
    about: "",
    codes: &[
        Code {
            code: "pull.error",
            kind: "transient, or permanent if the worker says so",
            cause: "the worker answered with an error; its words follow",
            next: "look at the worker",
        },
        Code {
            code: "pull.lease_ended",
            kind: "transient",
            cause: "the worker that leased the event did not answer in time: it died, is too slow, or settled too late",
            next: "look at the worker; a longer `lease` of the route, or of the request, gives it more time",
        },
        Code {
            code: "pull.not_json",
            kind: "permanent",
            cause: "the envelope is not JSON, which is all a worker can be told",
            next: "use `envelope = \"cloudevents-structured\"`, then replay",
        },
        Code {
            code: "pull.stopping",
            kind: "unavailable",
            cause: "the relay stops, and nobody had leased the event",
            next: "nothing: the next relay has it",
        },
    ],
};
