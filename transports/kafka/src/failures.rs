//! Every answer of a broker and every error of librdkafka as a failure: kind, code, one line.
//!
//! | code | kind | when |
//! | --- | --- | --- |
//! | `kafka.unreachable` | unavailable | no broker can be reached |
//! | `kafka.login` | unavailable | the broker does not take user or password |
//! | `kafka.tls` | unavailable | a certificate or a handshake is refused, by either side |
//! | `kafka.timeout` | unavailable | nothing was said within the time-out |
//! | `kafka.unknown_topic` | as `unknown_topic` says | the topic is not there, or no longer |
//! | `kafka.not_authorized` | unavailable | this user may not write there |
//! | `kafka.refused` | unavailable | the broker says anything else |
//! | `kafka.batch_refused` | unavailable | one event of a batch was refused; its neighbours come again one by one |
//! | `kafka.behind` | unavailable | an earlier event of the key was given up and must come first |
//! | `kafka.fatal` | unavailable | the producer cannot go on; the next delivery makes a new one |
//! | `kafka.config` | unavailable | librdkafka does not take a setting or a file |
//! | `kafka.closed` | unavailable | the transport is closed |
//! | `kafka.too_large` | permanent | larger than the topic takes |
//! | `kafka.invalid_record` | permanent | the broker refuses the record for another reason |
//! | `kafka.no_key` | permanent | without a key for a compacted topic |
//! | `kafka.topic_name` | permanent | no topic can have this name |
//! | `kafka.no_dlq_topic` | permanent | a dead event, and no topic for such |

use std::time::Duration;

use postroom_core::{Failure, units};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// What is added to a broker's silence when it has closed the connection.
const HANGS_UP: &str = "; a broker that wants TLS or a login hangs up like this";

/// What a delivery report that is no acknowledgement means.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Something in its batch is refused for good: this event, if it was alone in there.
    Event {
        /// What is to be said of the one.
        culprit: Failure,
        /// What is to be said of its neighbours.
        others: Failure,
    },
    /// Its topic is refused, for whatever event.
    Topic(Failure),
    /// Something else.
    Other(Failure),
    /// No answer: the producer was ended, by us or by a fatal error that is told elsewhere.
    Ended,
}

/// What the report for an event on its way to this topic says.
pub(crate) fn refusal(code: Code, event: &str, topic: &str) -> Refusal {
    let words = words(code);
    match code {
        Code::PurgeQueue | Code::PurgeInflight | Code::Fatal | Code::BrokerDestroy => Refusal::Ended,
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            let error = format!(
                "event {event} is too large for topic {topic}: {words}; raise its max.message.bytes, or send less"
            );
            Refusal::Event { culprit: Failure::permanent("kafka.too_large", error), others: others(topic, &words) }
        }
        Code::InvalidRecord | Code::InvalidDifferentRecord => {
            let error = format!("topic {topic} does not take event {event}: {words}");
            Refusal::Event { culprit: Failure::permanent("kafka.invalid_record", error), others: others(topic, &words) }
        }
        _ => match about_topic(code, topic) {
            Some(failure) => Refusal::Topic(failure),
            None => Refusal::Other(Failure::unavailable("kafka.refused", format!("topic {topic}: {words}"))),
        },
    }
}

fn others(topic: &str, words: &str) -> Failure {
    let error = format!("a batch for topic {topic} was refused: {words}; its events are sent again one by one");
    Failure::unavailable("kafka.batch_refused", error)
}

/// What is wrong with the topic itself, if that is it.
pub(crate) fn about_topic(code: Code, topic: &str) -> Option<Failure> {
    match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId => {
            let error = format!("topic {topic} does not exist; create it, with the partitions and replicas you want");
            Some(Failure::unavailable("kafka.unknown_topic", error))
        }
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            let error = format!("not allowed to write to topic {topic}: {}; grant this user WRITE on it", words(code));
            Some(Failure::unavailable("kafka.not_authorized", error))
        }
        Code::InvalidTopic => {
            let error = format!("topic {topic} is refused: {}", words(code));
            Some(Failure::unavailable("kafka.unknown_topic", error))
        }
        _ => None,
    }
}

/// Why the lag of consumers is unknown. `reason` is librdkafka's.
pub(crate) fn lag(code: Code, reason: &str) -> Failure {
    let not_allowed = |what: &str| {
        let error = format!("{}; grant this user DESCRIBE on {what}", words(code));
        Failure::unavailable("kafka.lag_not_authorized", error)
    };
    match code {
        Code::GroupAuthorizationFailed => not_allowed("it"),
        Code::TopicAuthorizationFailed => not_allowed("the topics"),
        _ => connecting(code, reason).unwrap_or_else(|| Failure::unavailable("kafka.refused", reason)),
    }
}

/// Why there is no connection, if this error says so. `reason` is librdkafka's, with the broker and its words.
pub(crate) fn connecting(code: Code, reason: &str) -> Option<Failure> {
    // One that hangs up in the middle of a handshake, right after it, when it has seen our certificate, or for want of one.
    // Elsewhere librdkafka writes it in lower case.
    let handshake = reason.contains("SSL");
    match code {
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => Some(Failure::unavailable("kafka.login", reason)),
        Code::SSL => Some(Failure::unavailable("kafka.tls", reason)),
        Code::BrokerTransportFailure if handshake => Some(Failure::unavailable("kafka.tls", reason)),
        Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut | Code::AllBrokersDown => {
            let hung_up = ["Disconnected", "Send failed", "Receive failed"].iter().any(|word| reason.contains(word));
            let hint = if hung_up { HANGS_UP } else { "" };
            Some(Failure::unavailable("kafka.unreachable", format!("{reason}{hint}")))
        }
        _ => None,
    }
}

/// The producer cannot go on.
pub(crate) fn fatal(code: Code, reason: &str) -> Failure {
    if code == Code::ClusterAuthorizationFailed {
        let error = format!(
            "not allowed to write: {reason}; grant this user WRITE on its topics, and IDEMPOTENT_WRITE on clusters \
             before Kafka 3.0"
        );
        return Failure::unavailable("kafka.not_authorized", error);
    }
    Failure::unavailable("kafka.fatal", format!("{}: {reason}", words(code)))
}

/// librdkafka does not make a client of these settings.
pub(crate) fn setting_up(error: &KafkaError) -> Failure {
    let said = match error {
        // The value may be the password.
        KafkaError::ClientConfig(_, description, name, _) => format!("{name}: {description}"),
        KafkaError::ClientCreation(reason) => reason.clone(),
        other => other.to_string(),
    };
    if said.contains("ssl.") || said.contains("certificate") {
        return Failure::unavailable("kafka.tls", format!("librdkafka cannot start: {said}"));
    }
    Failure::unavailable("kafka.config", format!("librdkafka cannot start: {said}"))
}

/// Nothing was said in time.
pub(crate) fn silent(what: &str, timeout: Duration) -> Failure {
    let error = format!(
        "{what} within {}: the brokers are silent, overloaded, or have fewer replicas in sync than min.insync.replicas",
        units::format_duration(timeout)
    );
    Failure::unavailable("kafka.timeout", error)
}

/// The engine handed this over before it knew of a failure.
pub(crate) fn behind(event: &str) -> Failure {
    let error = format!("an earlier event of the key of {event} was given up and goes first");
    Failure::unavailable("kafka.behind", error)
}

pub(crate) fn closed() -> Failure {
    Failure::unavailable("kafka.closed", "the transport is closed; the event is sent again by the next relay")
}

/// librdkafka's words for a code, without the name it has in Rust.
fn words(code: Code) -> String {
    let text = code.to_string();
    match text.split_once(" (").and_then(|(_, words)| words.strip_suffix(')')) {
        Some(words) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::FailureKind;

    use super::*;

    #[test]
    fn only_what_concerns_one_event_can_kill_it() {
        for code in [Code::MessageSizeTooLarge, Code::MessageBatchTooLarge, Code::InvalidRecord] {
            let Refusal::Event { culprit, others } = refusal(code, "e-1", "t") else { panic!("{code}") };
            assert_eq!((culprit.kind, others.kind), (FailureKind::Permanent, FailureKind::Unavailable), "{code}");
        }
        // A wrong clock here would kill everything.
        for code in [Code::InvalidTimestamp, Code::PolicyViolation, Code::NotEnoughReplicas, Code::UnknownProducerId] {
            assert!(matches!(refusal(code, "e-1", "t"), Refusal::Other(f) if f.kind == FailureKind::Unavailable));
        }
    }

    #[test]
    fn a_failure_of_a_topic_names_it() {
        for (code, expected) in [
            (Code::UnknownTopic, "kafka.unknown_topic"),
            (Code::UnknownTopicOrPartition, "kafka.unknown_topic"),
            (Code::TopicAuthorizationFailed, "kafka.not_authorized"),
        ] {
            let Refusal::Topic(failure) = refusal(code, "e-1", "orders.v1") else { panic!("{code}") };
            assert_eq!(failure.code, expected);
            assert!(failure.error.contains("topic orders.v1"), "{}", failure.error);
        }
    }

    #[test]
    fn a_setting_that_is_refused_never_shows_its_value() {
        let error = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "no".to_owned(),
            "sasl.password".to_owned(),
            "canary".to_owned(),
        );
        let failure = setting_up(&error);
        assert!(failure.error.contains("sasl.password") && !failure.error.contains("canary"), "{}", failure.error);
    }
}
