//! An event as Kafka wants it: topic, headers, body, and how large that is on the wire.
//!
//! Refuses what no broker would ever take; what this one says is [`crate::failures`]'s business.

use std::borrow::Cow;

use bytes::Bytes;
use postroom_core::envelope::Encoder;
use postroom_core::{Failure, Outbound};
use rdkafka::message::{Header, OwnedHeaders};

use crate::options::KafkaOptions;
use crate::topics::Topic;

/// What a batch is on the wire before its first record.
const BATCH_OVERHEAD: usize = 61;
/// Longest name a topic can have.
const NAME_MAX: usize = 249;

/// A message without its key, which is the event's.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) headers: OwnedHeaders,
    pub(crate) body: Bytes,
    /// Size of a batch with nothing else in it, uncompressed: what a topic's `max.message.bytes` is compared with.
    pub(crate) bytes: usize,
}

/// The topic for this one, if that can be told. Whether there can be such a topic is [`valid_name`]'s question.
pub(crate) fn topic<'a>(options: &'a KafkaOptions, outbound: &Outbound) -> Result<Cow<'a, str>, Failure> {
    let template = match &outbound.dead_letter {
        None => &options.topic,
        Some(_) => options.dlq_topic.as_ref().ok_or_else(no_dlq_topic)?,
    };
    template.render(&outbound.event)
}

fn no_dlq_topic() -> Failure {
    Failure::permanent("kafka.no_dlq_topic", "no topic for dead letters is configured; set `dlq_topic`")
}

/// Refuses names that no topic can have.
pub(crate) fn valid_name(name: &str) -> Result<(), Failure> {
    let bad = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')));
    let why = match bad {
        Some(c) => format!("it contains {c:?}; letters, digits, `.`, `_` and `-` are allowed"),
        None if name.is_empty() || name == "." || name == ".." => "Kafka keeps it for itself".to_owned(),
        None if name.len() > NAME_MAX => format!("it has {} bytes, {NAME_MAX} are allowed", name.len()),
        None => return Ok(()),
    };
    let shown: String = name.chars().take(NAME_MAX).collect();
    Err(Failure::permanent("kafka.topic_name", format!("{shown:?} cannot be the name of a topic: {why}")))
}

/// Encodes the event; a dead one with why it died.
pub(crate) fn message(encoder: &Encoder, route: &str, outbound: &Outbound) -> Result<Message, Failure> {
    let envelope = encoder.encode(&outbound.event, outbound.stage())?;
    let mut headers = OwnedHeaders::new_with_capacity(envelope.headers.len() + 5);
    let mut bytes = 0;
    let mut count = 0;
    let mut add = |headers: OwnedHeaders, name: &str, value: &str| {
        bytes += varint(name.len()) + name.len() + varint(value.len()) + value.len();
        count += 1;
        headers.insert(Header { key: name, value: Some(value) })
    };
    // The first of a name counts, so an event cannot say for itself why it died.
    if let Some(dead_letter) = &outbound.dead_letter {
        headers = add(headers, "postroom-failure-code", &dead_letter.failure.code);
        headers = add(headers, "postroom-error", &dead_letter.failure.error);
        headers = add(headers, "postroom-attempts", &dead_letter.attempts.to_string());
        headers = add(headers, "postroom-failed-at", &dead_letter.at.to_string());
        headers = add(headers, "postroom-route", route);
    }
    for (name, value) in &envelope.headers {
        headers = add(headers, name, value);
    }
    // Attributes and the differences in time and offset to the batch's first, which it is: one byte each.
    let key = outbound.event.ordering_key().map_or(1, |key| varint(key.len()) + key.len());
    let record = 3 + key + varint(envelope.body.len()) + envelope.body.len() + varint(count) + bytes;
    let bytes = BATCH_OVERHEAD + varint(record) + record;
    Ok(Message { headers, body: envelope.body, bytes })
}

/// Why this topic will never take this message.
pub(crate) fn refusal(topic: &Topic, outbound: &Outbound, message: &Message) -> Option<Failure> {
    let id = &outbound.event.id;
    if let Some(max) = topic.bytes_max.filter(|max| message.bytes > *max) {
        let error = format!(
            "event {id} has {} bytes as a message, topic {} takes {max}; raise its max.message.bytes, or send less",
            message.bytes, topic.name
        );
        return Some(Failure::permanent("kafka.too_large", error));
    }
    if topic.limits.compacted && outbound.event.ordering_key().is_none() {
        let error = format!("event {id} has no key, and topic {} is compacted: it takes only keyed ones", topic.name);
        return Some(Failure::permanent("kafka.no_key", error));
    }
    None
}

/// How many bytes Kafka needs for a length: seven bits each, one of all for the sign.
fn varint(length: usize) -> usize {
    let bits = usize::BITS - (length << 1).leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_topic_can_have_are_refused_for_good() {
        for name in ["orders.v1", "a_b-C.9", &"x".repeat(249)] {
            assert_eq!(valid_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a b", "größe", "a/b", "a\u{0}", &"x".repeat(250)] {
            let failure = valid_name(name).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (postroom_core::FailureKind::Permanent, "kafka.topic_name"));
        }
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for (length, bytes) in [(0, 1), (63, 1), (64, 2), (8191, 2), (8192, 3), (1_048_575, 3), (1_048_576, 4)] {
            assert_eq!(varint(length), bytes, "{length}");
        }
    }
}
