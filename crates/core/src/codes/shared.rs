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
        "event.too_large" | "permanent" | "an event in the table is over `limits.payload` or over the limit of headers; it was written there without an append, or the limit was lowered since. Its payload was not loaded" | "store the large part elsewhere; or raise `limits.payload`, restart the relay, then replay"
        "event.too_deep" | "permanent" | "the JSON of an event in the table is nested deeper than 100 levels, which decoders refuse" | "the producer must send it as a text, or in another content type; discard it"
        "template.missing" | "permanent" | "a template uses a field that the event does not have" | "narrow the route with `match`, or use another field; then replay"
        "template.value" | "permanent" | "a field of the event contains a character that would change the structure of the name" | "the text names the field and the character; only event types may contain dots, and only the last field what separates two"
        "transport.silent" | "unavailable" | "`config check --online` had no answer within 30 s" | "check the network between this machine and the destination"
        "transport.dropped" | "transient" | "a transport dropped the delivery without an outcome, which is a bug of the transport" | "the event is tried again; report the bug"
    },
}];
