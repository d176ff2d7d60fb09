//! Codes of Kafka.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of Kafka.
pub const CODES: &[Section] = &[
    Section {
        title: "Kafka",
        about: "",
        codes: codes! {
            "kafka.unreachable" | "unavailable" | "no broker is reachable: connection refused, unknown host, or connection closed" | "check `brokers`, the network, the brokers; a broker that requires TLS or a login closes the connection, too"
            "kafka.tls" | "unavailable" | "the broker's certificate is for another name, expired or not trusted; the broker requires a client certificate; or a file cannot be read" | "`tls.ca_file`, the names in `brokers` and in the brokers' `advertised.listeners`; `tls.cert_file` and `key_file`"
            "kafka.login" | "unavailable" | "user, password or mechanism is wrong" | "correct `sasl`"
            "kafka.not_authorized" | "unavailable" | "the user may not write to the topic" | "grant `WRITE` on the topic that the text names; [what is needed](kafka.md#logging-in-and-tls)"
            "kafka.unknown_topic" | "unavailable; transient with `unknown_topic = \"retry\"`" | "the topic does not exist, or was deleted" | "create the topic, with the partitions and replicas you want"
            "kafka.timeout" | "unavailable" | "the broker did not answer, or did not acknowledge an event, within `timeout`" | "the brokers are overloaded or silent, or fewer replicas are in sync than `min.insync.replicas`"
            "kafka.refused" | "unavailable" | "the broker refused for another reason, which the text quotes" | "look the reason up in Kafka's documentation; a wrong clock is one cause"
            "kafka.batch_refused" | "unavailable" | "an event in the same batch was refused" | "none: the events of the batch are sent again one by one"
            "kafka.behind" | "unavailable" | "an earlier event of the same key was just given up" | "none: the event is sent after that one"
            "kafka.fatal" | "unavailable" | "the Kafka producer failed for good" | "none, unless it happens often: a new producer is created"
            "kafka.config" | "unavailable" | "librdkafka does not accept a setting" | "the text names the setting"
            "kafka.too_large" | "permanent" | "the event is larger than the topic's `max.message.bytes`, headers included" | "raise the limit and replay, or send a reference"
            "kafka.invalid_record" | "permanent" | "the broker refuses the record for another reason" | "the text is the broker's"
            "kafka.no_key" | "permanent" | "the topic is compacted and takes only keyed events" | "append such events with a key, or use another topic"
            "kafka.topic_name" | "permanent" | "the topic name made from the event is not valid" | "the text shows the name; correct `topic`, then replay"
            "kafka.no_dlq_topic" | "permanent" | "a dead letter was to be published and there is no `dlq_topic`" | "set `dlq_topic`"
            "kafka.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
            "kafka.password_in_clear" | "warning" | "a password is sent without TLS" | "add `tls`, or use `mechanism = \"scram-sha-512\"`"
            "kafka.acks" | "warning" | "`acks` is not `all`: a broker that dies loses events" | "`acks = \"all\"`, unless these events may be lost"
            "kafka.one_replica" | "warning" | "the topic has one replica" | "give it three, and `min.insync.replicas` 2"
            "kafka.in_sync_min" | "warning" | "`min.insync.replicas` is 1: a single broker may acknowledge an event" | "set `min.insync.replicas` to 2"
            "kafka.lag_not_authorized" | "unavailable" | "the lag of a group is unknown, because the user may not see the group or the offsets of the topics; deliveries continue" | "grant the user `DESCRIBE` on the group that the text names, and on the topics; or set `consumers.every = \"never\"`"
            "kafka.limits_unknown" | "warning" | "the user may not read the topic's configuration, so events that are too large are found by trying" | "grant the user `DESCRIBE_CONFIGS` on the topic"
        },
    },
    Section {
        title: "Consumers",
        about: "",
        codes: codes! {
            "kafka.dead_letters" | "unavailable" | "the topic for dead messages rejects a message" | "create the topic, with the same `max.message.bytes` as the source topics"
        },
    },
];
