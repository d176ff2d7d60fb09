//! What the tests have in common: transports with short words, events, and a log that everybody writes to.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use postroom_conformance::Log;
use postroom_conformance::transports::Post;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Failure, FailureKind, JSON, Outbound, Outcome, Template};
use postroom_kafka::{Kafka, KafkaOptions};
use tokio::sync::mpsc;

use crate::cluster::Cluster;

/// Time enough for everything that is expected to be answered.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn template(text: &str) -> Template {
    Template::parse(text, &[]).expect("a template")
}

pub(crate) fn options(brokers: &str, topic: &str) -> KafkaOptions {
    KafkaOptions::new(vec![brokers.to_owned()], template(topic))
}

/// A transport; everybody's log is collected from here on.
pub(crate) fn kafka(options: KafkaOptions) -> Arc<Kafka> {
    LazyLock::force(&LOG);
    let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/postroom/test");
    Arc::new(Kafka::new("parcels", options, encoder))
}

/// The same, ready to deliver.
pub(crate) fn post(options: KafkaOptions) -> Post {
    Post::new(kafka(options))
}

/// Ready to deliver to a topic of the shared cluster.
pub(crate) fn post_to(cluster: &Cluster, topic: &str) -> Post {
    post(options(&cluster.brokers, topic))
}

pub(crate) fn event(id: &str, key: &str) -> Event {
    Event::new("parcel.sent").id(id).key(key).bytes(JSON, r#"{"secret":"canary"}"#)
}

/// So many of one key, numbered from the first.
pub(crate) fn events(key: &str, numbers: std::ops::Range<usize>) -> Vec<Event> {
    numbers.map(|n| event(&format!("{key}-{n}"), key)).collect()
}

/// Delivers one event, which must fail.
pub(crate) async fn failure(post: &mut Post, event: Event) -> Failure {
    post.deliver(&[event]).await;
    post.outcome().await.1.expect_err("it fails")
}

/// Delivers one outbound by hand, for what a [`Post`] does not do.
pub(crate) async fn deliver(transport: &Kafka, event: Event, change: impl FnOnce(&mut Outbound)) -> Outcome {
    use postroom_core::Transport;
    let (report, mut outcomes) = mpsc::unbounded_channel();
    let mut outbound = Outbound::new(1, 1, Arc::new(event), Some(1), report);
    change(&mut outbound);
    transport.deliver(vec![outbound]).await;
    outcomes.recv().await.expect("an outcome").1
}

/// What all tests log, at every level.
static LOG: LazyLock<Log> = LazyLock::new(|| {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false);
    // Set once, by whoever is first.
    subscriber.with_max_level(tracing::Level::TRACE).init();
    log
});

/// The lines logged so far that contain this.
pub(crate) fn logged(word: &str) -> Vec<String> {
    LOG.text().lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
}

/// Delivers as a relay would, what was unavailable again and again: what became of each, and in how many rounds.
pub(crate) async fn deliver_to_the_end(post: &mut Post, events: &[Event]) -> (HashMap<String, Outcome>, usize) {
    let (mut ends, mut left, mut rounds) = (HashMap::new(), events.to_vec(), 0);
    while !left.is_empty() {
        rounds += 1;
        assert!(rounds < 100, "{} events come to no end", left.len());
        post.deliver(&left).await;
        let outcomes = post.outcomes().await;
        // A relay's breaker waits longer.
        tokio::time::sleep(Duration::from_millis(50)).await;
        left.retain(|event| matches!(&outcomes[&event.id], Err(f) if f.kind == FailureKind::Unavailable));
        ends.extend(outcomes.into_iter().filter(|(id, _)| !left.iter().any(|event| event.id == *id)));
    }
    (ends, rounds)
}
