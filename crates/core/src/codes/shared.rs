//! Codes that belong to no member.

use crate::codes;
use crate::codes::Section;

/// Codes that belong to no member.
pub const CODES: &[Section] = &[Section {
    title: "Other codes",
    about: "",
    codes: codes! {
        "envelope.not_json" | "permanent" | "the payload is not JSON, but its content type is JSON or the route's `fields` need JSON" | "narrow the route, or use `cloudevents-structured`; a payload broken by a plain SQL insert must be appended again"
        "envelope.json" | "permanent" | "the envelope could not be written" | "report a bug, with the event type"
        "template.missing" | "permanent" | "a template uses a field that the event does not have" | "narrow the route with `match`, or use another field; then replay"
        "template.value" | "permanent" | "a field of the event contains a character that would change the structure of the name" | "the text names the field and the character; only event types may contain dots"
        "transport.silent" | "unavailable" | "`config check --online` had no answer within 30 s" | "check the network between this machine and the destination"
        "transport.dropped" | "transient" | "a transport dropped the delivery without an outcome, which is a bug of the transport" | "the event is tried again; report the bug"
    },
}];
