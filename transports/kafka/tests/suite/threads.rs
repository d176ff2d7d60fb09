//! Counts the threads of librdkafka. Cases take turns, so that nobody counts another's.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::changed;
use postroom_conformance::transports::Arrived;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Template, Transport};
use postroom_kafka::{Kafka, KafkaOptions};
use tokio::sync::{Mutex, MutexGuard};

use crate::cluster::{Cluster, Record};

static TURN: Mutex<()> = Mutex::const_new(());

/// One case's time alone in the process.
pub(crate) struct Turn {
    _held: MutexGuard<'static, ()>,
}

impl Turn {
    pub(crate) async fn take() -> Self {
        Self { _held: TURN.lock().await }
    }
}

/// Threads of librdkafka's own, of its polling, and those that wait for its end.
pub(crate) fn running() -> usize {
    let names = fs::read_dir("/proc/self/task").expect("our threads").flatten();
    let names = names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let ours = ["rdk:", "kafka-polling", "admin client po", "kafka-ending"];
    names.filter(|name| ours.iter().any(|prefix| name.starts_with(prefix))).count()
}

pub(crate) fn transport(brokers: &str, topic: &str, timeout: Duration) -> Arc<dyn Transport> {
    Arc::new(kafka(brokers, topic, timeout))
}

pub(crate) fn kafka(brokers: &str, topic: &str, timeout: Duration) -> Kafka {
    let topic = Template::parse(topic, &[]).expect("a name");
    let options = changed(KafkaOptions::new(vec![brokers.to_owned()], topic), |o| o.timeout = timeout);
    Kafka::new("suite", options, Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/postroom/test"))
}

/// What is in a topic, as the suite wants it.
pub(crate) async fn arrived(cluster: &Cluster, topic: &str) -> Vec<Arrived> {
    let arrived = |record: Record| Arrived {
        id: record.id().to_owned(),
        event_type: record.headers["ce_type"].clone(),
        payload: record.payload,
    };
    cluster.read(topic).await.into_iter().map(arrived).collect()
}
