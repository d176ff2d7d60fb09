//! The billing system: its table, the rows its services write, the topic its subject names.

use std::ops::{Deref, DerefMut};

use postroom_presets::{Kafka, Record, System};
use postroom_testbed::unique_name;
use serde_json::{Value, json};

/// The billing system with Kafka as its bus.
pub(crate) struct Billing {
    system: System,
    pub(crate) kafka: Kafka,
    /// A subject with a topic of its own.
    pub(crate) subject: String,
}

impl Billing {
    /// With the table that the preset's own DDL makes.
    pub(crate) fn new() -> Self {
        Self::with_payload("jsonb")
    }

    /// With another type of payload column.
    pub(crate) fn with_payload(sql_type: &str) -> Self {
        let mut system = System::bare("corebilling");
        let ddl = system.ok(&["preset", "show", "corebilling", "--ddl"]);
        let table = ddl.split_inclusive(';').next().unwrap();
        system.script(&table.replace("payload jsonb", &format!("payload {sql_type}")));
        let kafka = Kafka::shared();
        let subject = unique_name("invoice.created");
        kafka.create(&[&subject], 3);
        system.set("KAFKA_BROKERS", &kafka.brokers);
        // As often as the tests would like to look.
        system.set("POSTROOM_STORE__MAIN__POLL__MIN", "20ms");
        system.set("POSTROOM_STORE__MAIN__POLL__MAX", "20ms");
        Self { system, kafka, subject }
    }

    /// What a service writes: the payload with the metadata of a new event.
    pub(crate) fn insert(&self, id: &str, more: &Value) {
        let mut payload = json!({"invoice": id, "outbox_status": "pending", "outbox_retry_count": 0});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.write(id, &self.subject, "'sub-1'", &payload.to_string());
    }

    /// The same under a subject that has no topic: publishing it fails.
    pub(crate) fn insert_failing(&self, id: &str, count: u32) {
        let payload = json!({"invoice": id, "outbox_status": "pending", "outbox_retry_count": count});
        self.write(id, "no.such.topic", "null", &payload.to_string());
    }

    /// A row with exactly this payload; `resource` as SQL.
    pub(crate) fn write(&self, id: &str, subject: &str, resource: &str, payload: &str) {
        let payload = payload.replace('\'', "''");
        self.script(&format!(
            "insert into billing_events (id, subject, tenant_id, resource_id, payload, created_at) \
             values ('{id}', '{subject}', 't-1', {resource}, '{payload}', '2026-01-02T03:04:05.12Z')"
        ));
    }

    /// One row's payload.
    pub(crate) fn payload(&self, id: &str) -> Value {
        let found = self.query(&format!("select payload::text from billing_events where id = '{id}'"));
        serde_json::from_str(&found[0]).unwrap()
    }

    /// Every row's id, status and count.
    pub(crate) fn states(&self) -> Vec<String> {
        self.query(
            "select id, payload::jsonb->>'outbox_status', payload::jsonb->>'outbox_retry_count' \
             from billing_events order by id",
        )
    }

    /// What is in the subject's topic, in the order of the events' ids.
    pub(crate) fn published(&self) -> Vec<Record> {
        let mut records = self.kafka.read(&self.subject);
        records.sort_by_key(|record| record.json()["id"].as_str().unwrap().to_owned());
        records
    }

    /// The ids of what is in the subject's topic.
    pub(crate) fn published_ids(&self) -> Vec<String> {
        self.published().iter().map(|record| record.json()["id"].as_str().unwrap().to_owned()).collect()
    }

    /// What `status` notes about the route.
    pub(crate) fn note(&self) -> String {
        self.route("corebilling")["message"].as_str().unwrap().to_owned()
    }
}

impl Deref for Billing {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

impl DerefMut for Billing {
    fn deref_mut(&mut self) -> &mut System {
        &mut self.system
    }
}
