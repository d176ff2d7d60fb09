//! Codes of workers that pull.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of the `pull` transport.
pub const CODES: &[Section] = &[Section {
    title: "The `pull` transport",
    about: "",
    codes: codes! {
        "pull.error" | "transient, or permanent if the worker says so" | "the worker answered with an error, which the text quotes" | "fix the worker"
        "pull.lease_ended" | "transient" | "the worker that leased the event did not settle it in time: it died or is too slow" | "check the worker; a longer `lease` of the route or of the request gives it more time"
        "pull.not_json" | "permanent" | "the envelope is not JSON, and a pull response can carry only JSON" | "use `envelope = \"cloudevents-structured\"`, then replay"
        "pull.stopping" | "unavailable" | "the relay stopped before a worker leased the event" | "none: the next relay offers it"
    },
}];
