//! Codes of consumers, and of windows and guards in handlers.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of consumers, and of windows and guards in handlers.
pub const CODES: &[Section] = &[
    Section {
        title: "Deduplication windows and state guards",
        about: "[Inboxes](inbox.md) explains both.",
        codes: codes! {
            "guard.refused" | "permanent" | "the transition from the current state is not allowed, or the entity does not exist" | "if an earlier event may still arrive, return a transient failure; else fix the cause, then replay"
            "dedup.held" | "transient" | "another process holds the claim on the event" | "none: the event is tried again when that claim ends"
            "dedup.late" | "–" | "the effect took longer than its claim, so another process may have done it too (`DedupOutcome::Doubtful`)" | "make `claim` longer than the slowest effect"
            "dedup.full" | "unavailable" | "the window holds `entries_max` events" | "raise `entries_max`, or shorten the window"
            "dedup.invalid" | "permanent" | "the consumer has no name, or the event id is longer than 64 bytes" | "name the consumer"
        },
    },
    Section {
        title: "Consumers",
        about: "Codes of a [consumer](consumers.md) in Rust, in its log and in the headers of dead messages.",
        codes: codes! {
            "consumer.no_id" | "permanent" | "the message has no event id" | "check the sender; set `ConsumerOptions::id_field` if the id has another name"
            "consumer.id" | "permanent" | "the event id is empty, longer than 64 bytes, or not valid for the inbox" | "check the sender"
            "consumer.envelope" | "permanent" | "the message is declared as a structured CloudEvent, but is not one" | "check the sender"
            "consumer.commit" | "transient" | "the transaction of the handler cannot be committed: the handler ignored a failed statement, or a deferred constraint failed" | "the text quotes the database; correct the handler"
            "consumer.database" | "unavailable" | "the database is not reachable" | "restore the database; no message is acknowledged meanwhile"
        },
    },
];
