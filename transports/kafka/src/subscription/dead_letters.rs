//! Where messages go that were given up: a topic, by acknowledged sends.

use std::fmt;

use postroom_consumer::reason_headers;
use postroom_core::{DeadLetterCause, Failure};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::{KafkaSubscriptionOptions, KafkaTicket};
use crate::connection::in_background;
use crate::failures;

/// Writes dead letters.
pub(super) struct DeadLetterPublisher(Option<FutureProducer>);

impl DeadLetterPublisher {
    pub(super) fn open(options: &KafkaSubscriptionOptions) -> Result<Self, Failure> {
        Ok(Self(Some(options.producer().create().map_err(|error| failures::setting_up(&error))?)))
    }

    pub(super) async fn lay(
        &self,
        ticket: &KafkaTicket,
        options: &KafkaSubscriptionOptions,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> Result<(), Failure> {
        let Some(producer) = &self.0 else { unreachable!("it is there until it is dropped") };
        let topic = &options.dead_topic;
        let send = async |reasons: &[(&str, String)]| {
            let mut record = FutureRecord::to(topic).payload(&ticket.body[..]).headers(ticket.headers_after(reasons));
            if let Some(key) = &ticket.key {
                record = record.key(&key[..]);
            }
            producer.send(record, options.timeout).await.map(drop).map_err(|(error, _)| error)
        };
        let sent = match send(&reason_headers(consumer, dead_letter)).await {
            // It was as large as may be already. Why it died is in the log.
            Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) => send(&[]).await,
            sent => sent,
        };
        sent.map_err(|error| {
            Failure::unavailable("kafka.dead_letters", format!("topic {topic} takes no dead letter: {error}"))
        })
    }
}

impl Drop for DeadLetterPublisher {
    fn drop(&mut self) {
        if let Some(producer) = self.0.take() {
            in_background(move || drop(producer));
        }
    }
}

impl KafkaTicket {
    /// The message's headers behind these.
    fn headers_after(&self, first: &[(&str, String)]) -> OwnedHeaders {
        let mut headers = OwnedHeaders::new();
        for (name, value) in first {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
        for header in self.headers.iter().flat_map(Headers::iter) {
            if first.iter().all(|(name, _)| *name != header.key) {
                headers = headers.insert(header);
            }
        }
        headers
    }
}

impl fmt::Debug for DeadLetterPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeadLetterPublisher")
    }
}
