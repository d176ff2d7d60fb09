//! Codes: Consumers.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Consumers",
    about: "What a [consumer](consumers.md) in Rust says, in its log and in the headers of dead messages.",
    codes: &[
        Code {
            code: "consumer.no_id",
            kind: "permanent",
            cause: "the message names no event",
            next: "look who sent it; `ConsumerOptions::id_field` if the id has another name",
        },
        Code {
            code: "consumer.id",
            kind: "permanent",
            cause: "the event's id is empty, over 64 bytes, or nothing the inbox can hold",
            next: "look who sent it",
        },
        Code {
            code: "consumer.envelope",
            kind: "permanent",
            cause: "it says it is a structured CloudEvent and is none",
            next: "look who sent it",
        },
        Code {
            code: "consumer.commit",
            kind: "transient",
            cause: "what the handler did cannot be committed: a statement had failed and was overlooked, or a deferred constraint",
            next: "the text is the database's; correct the handler",
        },
        Code {
            code: "consumer.database",
            kind: "unavailable",
            cause: "the database is away, or does not answer",
            next: "bring it back; nothing is acknowledged meanwhile",
        },
        Code {
            code: "kafka.dead_letters",
            kind: "unavailable",
            cause: "the topic for dead messages does not take one",
            next: "create it; its `max.message.bytes` must be that of the others",
        },
        Code {
            code: "rabbitmq.queue",
            kind: "unavailable",
            cause: "the queue cannot be read",
            next: "the text is the broker's: declare it, grant `read`",
        },
        Code {
            code: "rabbitmq.no_dead_letters",
            kind: "unavailable",
            cause: "the queue for dead messages is not there, or full",
            next: "declare it, or empty it",
        },
        Code {
            code: "nats.consumer",
            kind: "unavailable",
            cause: "the durable consumer cannot be made or read, or would read its own dead messages",
            next: "the text says which",
        },
        Code {
            code: "nats.dead_letters",
            kind: "unavailable",
            cause: "no stream takes the subject for dead messages",
            next: "create one",
        },
    ],
};
