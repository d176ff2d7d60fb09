//! Kafka against its own `ProducerPerformance`, with the same acknowledgements and batches; and one hot key.

use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_kafka::{Kafka, KafkaOptions};
use postroom_testbed::{Servers, brokers, run as run_to_end};

use super::{encoder, relayed, template, unique, warm};
use crate::rounds::Rounds;

const COUNT: usize = 400_000;
const KEYS: usize = 50_000;

pub(crate) async fn run(servers: &Servers) {
    let broker = format!("127.0.0.1:{}", servers.site("kafka").port);
    let topic = topic(&broker);
    let kafka: Arc<dyn Transport> = Arc::new(Kafka::new(
        "bench",
        KafkaOptions::new(vec![broker.clone()], template(&topic)),
        encoder(Binding::Kafka),
    ));
    warm(&kafka).await;
    let (mut rounds, mut hot) = (Rounds::default(), Rounds::default());
    for _ in 0..super::ROUNDS {
        let bare = producer_performance(&broker, &topic);
        let many = relayed(Arc::clone(&kafka), COUNT, KEYS).await;
        rounds.add(many, bare);
        hot.add(relayed(Arc::clone(&kafka), COUNT / 2, 1).await, many);
    }
    kafka.close().await;
    let (ratio, rates) = rounds.show();
    println!("transports, Kafka: {ratio:.2} of ProducerPerformance ({rates}; target ≥ 0.7)");
    let (ratio, rates) = hot.show();
    println!("transports, Kafka, one hot key: {ratio:.2} of many keys ({rates}; target ≥ 0.5)");
}

/// A topic with a few partitions.
pub(super) fn topic(broker: &str) -> String {
    let topic = unique("bench");
    create_topic(broker, &topic);
    topic
}

pub(crate) fn create_topic(broker: &str, topic: &str) {
    let mut create = brokers::Kafka::tool("org.apache.kafka.tools.TopicCommand").unwrap();
    create.args(["--bootstrap-server", broker, "--create", "--topic", topic, "--partitions", "6"]);
    run_to_end(&mut create).unwrap();
}

/// Records per second by the broker's own tool.
fn producer_performance(broker: &str, topic: &str) -> f64 {
    let mut tool = brokers::Kafka::tool("org.apache.kafka.tools.ProducerPerformance").unwrap();
    let (count, size) = (COUNT.to_string(), super::PAYLOAD_BYTES.to_string());
    tool.args(["--topic", topic, "--num-records", &count, "--record-size", &size, "--throughput", "-1"]);
    let server = format!("bootstrap.servers={broker}");
    tool.args([
        "--producer-props",
        &server,
        "acks=all",
        "enable.idempotence=true",
        "linger.ms=5",
        "batch.size=1000000",
    ]);
    let output = tool.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // `400000 records sent, 123456.7 records/sec (35.32 MB/sec), …`
    let last = text.lines().last().unwrap_or_default();
    let rate = last.split(", ").find(|part| part.contains("records/sec")).and_then(|part| part.split(' ').next());
    rate.and_then(|rate| rate.parse().ok()).expect("the tool ends with its rate")
}
