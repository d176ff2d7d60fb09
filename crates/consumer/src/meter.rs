//! What a consumer counts. With the feature `metrics` through whatever recorder the application has made global.

use postroom_core::Acceptance;

use crate::message::Message;

/// An event was accepted and its work is committed, or it had been long ago.
#[cfg(not(feature = "metrics"))]
pub(crate) fn accepted(_: &str, _: &Message, _: Acceptance) {}

/// An event was accepted and its work is committed, or it had been long ago.
#[cfg(feature = "metrics")]
pub(crate) fn accepted(consumer: &str, message: &Message, acceptance: Acceptance) {
    use postroom_core::metrics::{CONSUMER_LAG, INBOX_ACCEPTS};

    let consumer = consumer.to_owned();
    let result = match acceptance {
        Acceptance::New => "new",
        Acceptance::Duplicate => "duplicate",
    };
    metrics::counter!(INBOX_ACCEPTS.name, "consumer" => consumer.clone(), "result" => result).increment(1);
    let occurred = message.attribute("time").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    if let (Acceptance::New, Some(occurred)) = (acceptance, occurred) {
        let lag = jiff::Timestamp::now().duration_since(occurred).as_secs_f64().max(0.0);
        metrics::histogram!(CONSUMER_LAG.name, "consumer" => consumer).record(lag);
    }
}
