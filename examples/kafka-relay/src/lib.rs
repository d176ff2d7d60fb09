//! A relay from PostgreSQL to a Kafka topic, without a configuration file.

use postroom::envelope::{Binding, Encoder, Format, Template, TemplateError};
use postroom::transports::kafka::{Kafka, KafkaOptions};
use postroom::{Relay, Route, Store};

/// The relay: everything of type `order.*` goes to the topic, in order per key.
pub fn relay(store: impl Store + 'static, brokers: &str, topic: &str) -> Result<Relay, TemplateError> {
    let brokers = brokers.split(',').map(str::to_owned).collect();
    let options = KafkaOptions::new(brokers, Template::parse(topic, &[])?);
    // The payload is the record's value, what describes it is in headers `ce_…`; the key is the record's key.
    let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/shop");
    let orders = Route::named("orders").matching("order.*").from_beginning();
    Ok(Relay::new(store).route(orders.to(Kafka::new("orders", options, encoder))))
}
