//! The payment service: its table, what it writes, its topics.

use std::ops::{Deref, DerefMut};

use postroom_presets::{Kafka, System};
use postroom_testbed::unique_name;
use serde_json::{Value, json};

/// The payment service with topics of its own.
pub(crate) struct Payments {
    system: System,
    pub(crate) kafka: Kafka,
    prefix: String,
}

impl Payments {
    /// With the topics of both types and of dead letters.
    pub(crate) fn new() -> Self {
        let payments = Self::without_topics(Kafka::shared());
        let names = ["paymentauthorized", "paymentdeclined", "dlq"].map(|name| payments.topic(name));
        payments.kafka.create(&names.each_ref().map(String::as_str), 3);
        payments
    }

    pub(crate) fn without_topics(kafka: Kafka) -> Self {
        let mut system = System::new("payments");
        let prefix = unique_name("payments");
        system.set("REDPANDA_BROKERS", &kafka.brokers);
        system.set("KAFKA_TOPIC_PREFIX", &prefix);
        // As often as the tests would like to look.
        system.set("OUTBOX_POLL_INTERVAL_SECONDS", "0.02");
        Self { system, kafka, prefix }
    }

    /// The full name of a topic.
    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// An authorized payment of this aggregate.
    pub(crate) fn insert(&self, id: &str, aggregate: &str) {
        self.write(id, aggregate, "PaymentAuthorized");
    }

    /// An event of a type that has no topic: publishing it fails.
    pub(crate) fn insert_failing(&self, id: &str, aggregate: &str) {
        self.write(id, aggregate, "PaymentForgotten");
    }

    pub(crate) fn write(&self, id: &str, aggregate: &str, event_type: &str) {
        let payload = payload(id);
        self.script(&format!(
            "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
             values ('{id}', 'Payment', '{aggregate}', '{event_type}', '{payload}', clock_timestamp())"
        ));
    }

    /// Every row's id, whether it is published, and its count.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.query("select id, published_at is not null, retry_count from outbox order by created_at, id")
    }

    /// The ids of what is in a topic, partition by partition.
    pub(crate) fn ids(&self, topic: &str) -> Vec<String> {
        let id = |value: &Value| value["event_id"].as_str().unwrap().to_owned();
        self.kafka.read(&self.topic(topic)).iter().map(|record| id(&record.json())).collect()
    }

    /// How far ahead the row's next try is, in seconds.
    pub(crate) fn due_in(&self, id: &str) -> f64 {
        let due = "select extract(epoch from due - since) from postroom.sidecar where row_id";
        self.query(&format!("{due} = '{id}'"))[0].parse().unwrap()
    }

    /// Lets every row that waits be due now.
    pub(crate) fn be_due(&self) {
        self.script("update postroom.sidecar set due = now() where due > now()");
    }
}

pub(crate) fn payload(id: &str) -> Value {
    json!({
        "payment_id": id, "payer_account_id": "01HY1234567890ABCDEFGHIJ", "payee_account_id": "01HY0987654321JIHGFEDCBA",
        "amount_cents": 5000, "currency": "USD",
    })
}

impl Deref for Payments {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for Payments {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}
