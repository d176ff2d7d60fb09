//! Codes: Kafka.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Kafka",
    about: "",
    codes: &[
        Code {
            code: "kafka.unreachable",
            kind: "unavailable",
            cause: "no broker can be reached: refused, no such name, hung up",
            next: "check `brokers`, the network, the brokers; one that wants TLS or a login hangs up, too",
        },
        Code {
            code: "kafka.tls",
            kind: "unavailable",
            cause: "a certificate is not for this name, expired or not trusted; the broker wants one of ours; a file cannot be read",
            next: "`tls.ca_file`, the names in `brokers` and in the brokers' `advertised.listeners`; `tls.cert_file` and `key_file`",
        },
        Code {
            code: "kafka.login",
            kind: "unavailable",
            cause: "user, password or mechanism are wrong",
            next: "correct `sasl`",
        },
        Code {
            code: "kafka.not_authorized",
            kind: "unavailable",
            cause: "the user may not write there",
            next: "grant `WRITE` on the topic the text names; [what is needed](kafka.md#logging-in-and-tls)",
        },
        Code {
            code: "kafka.unknown_topic",
            kind: "unavailable; transient with `unknown_topic = \"retry\"`",
            cause: "the topic is not there, or was deleted",
            next: "create it, with the partitions and replicas you want",
        },
        Code {
            code: "kafka.timeout",
            kind: "unavailable",
            cause: "nothing was said, or an event not acknowledged, within `timeout`",
            next: "the brokers are overloaded or silent, or fewer replicas are in sync than `min.insync.replicas`",
        },
        Code {
            code: "kafka.refused",
            kind: "unavailable",
            cause: "something else; the text is the broker's",
            next: "look it up in Kafka's documentation; a clock that is wrong is one reason",
        },
        Code {
            code: "kafka.batch_refused",
            kind: "unavailable",
            cause: "an event in the same batch was refused",
            next: "none: they come again one by one",
        },
        Code {
            code: "kafka.behind",
            kind: "unavailable",
            cause: "an earlier event of its key was just given up",
            next: "none: it follows that one",
        },
        Code {
            code: "kafka.fatal",
            kind: "unavailable",
            cause: "the producer could not go on",
            next: "none, unless it happens often: a new one is made",
        },
        Code {
            code: "kafka.config",
            kind: "unavailable",
            cause: "librdkafka does not take a setting",
            next: "the text says which",
        },
        Code {
            code: "kafka.too_large",
            kind: "permanent",
            cause: "over the topic's `max.message.bytes`, headers included",
            next: "raise it and replay, or send a reference",
        },
        Code {
            code: "kafka.invalid_record",
            kind: "permanent",
            cause: "the broker refuses the record for another reason",
            next: "the text is the broker's",
        },
        Code {
            code: "kafka.no_key",
            kind: "permanent",
            cause: "the topic is compacted and takes only keyed events",
            next: "append such events with a key, or use another topic",
        },
        Code {
            code: "kafka.topic_name",
            kind: "permanent",
            cause: "the event makes a name that no topic can have",
            next: "the text shows it; correct `topic`, then replay",
        },
        Code {
            code: "kafka.no_dlq_topic",
            kind: "permanent",
            cause: "a dead event was to be buried and there is no `dlq_topic`",
            next: "set it",
        },
        Code {
            code: "kafka.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
        Code {
            code: "kafka.password_in_clear",
            kind: "warning",
            cause: "a login by password without TLS",
            next: "add `tls`, or use `mechanism = \"scram-sha-512\"`",
        },
        Code {
            code: "kafka.acks",
            kind: "warning",
            cause: "`acks` is not `all`: a broker that dies loses events",
            next: "`acks = \"all\"`, unless these events may be lost",
        },
        Code {
            code: "kafka.one_replica",
            kind: "warning",
            cause: "the topic has one replica",
            next: "give it three, and `min.insync.replicas` 2",
        },
        Code {
            code: "kafka.in_sync_min",
            kind: "warning",
            cause: "`min.insync.replicas` is 1: acknowledged may mean by one broker only",
            next: "set it to 2",
        },
        Code {
            code: "kafka.limits_unknown",
            kind: "warning",
            cause: "the topic's configuration may not be read, so too large events are found by trying",
            next: "grant the user `DESCRIBE_CONFIGS` on it",
        },
    ],
};
