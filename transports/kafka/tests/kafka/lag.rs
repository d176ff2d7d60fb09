//! Lag of groups, read beside groups that another client is in.

use std::time::Duration;

use postroom_conformance::changed;
use postroom_core::{ConsumerLag, ConsumerLags, LagOptions, LagReader, Secret, Transport as _};
use postroom_kafka::{KafkaOptions, Mechanism, Sasl};
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD};
use postroom_testbed::{Servers, free_port, unique_name};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::spawn_blocking;

use crate::cluster::Cluster;
use crate::kafka::workshop::{LONG, events, kafka, options, post_to};

/// A member of a group that reads these topics, and commits only when it is told to.
async fn member(cluster: &Cluster, group: &str, topics: Vec<String>) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &cluster.brokers).set("group.id", group);
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    spawn_blocking(move || {
        let consumer: BaseConsumer = config.create().unwrap();
        consumer.subscribe(&topics.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        consumer
    })
    .await
    .unwrap()
}

/// Reads so many messages, and commits what it has read.
async fn work(consumer: BaseConsumer, messages: usize) -> BaseConsumer {
    spawn_blocking(move || {
        for _ in 0..messages {
            // A rebalance ends a poll without a message.
            let message = std::iter::repeat_with(|| consumer.poll(LONG)).flatten().next().unwrap().unwrap();
            let mut done = TopicPartitionList::new();
            let next = Offset::Offset(message.offset() + 1);
            done.add_partition_offset(message.topic(), message.partition(), next).unwrap();
            consumer.commit(&done, CommitMode::Sync).unwrap();
        }
        consumer
    })
    .await
    .unwrap()
}

async fn leave(consumer: BaseConsumer) {
    spawn_blocking(move || drop(consumer)).await.unwrap();
}

fn reader(options: KafkaOptions) -> Box<dyn LagReader> {
    kafka(options).lag_reader().expect("a reader")
}

/// What is read of one group, when it is so.
async fn until(reader: &mut dyn LagReader, group: &str, so: impl Fn(&ConsumerLag) -> bool) -> ConsumerLag {
    loop {
        let ConsumerLags { consumers, .. } = reader.read().await.expect("the cluster answers");
        if let Some(found) = consumers.into_iter().find(|lag| lag.consumer == group && so(lag)) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_group_is_behind_by_what_it_has_not_committed_until_it_catches_up_and_then_has_no_members() {
    let cluster = Cluster::shared();
    let (topic, group) = (cluster.topic(3, &[]).await, unique_name("billing"));
    let mut post = post_to(&cluster, &topic);
    let sent: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|key| events(key, 0..2)).collect();
    post.deliver_until_ok(&sent).await;
    let consumer = work(member(&cluster, &group, vec![topic.clone()]).await, 5).await;

    let mut reader = reader(options(&cluster.brokers, &topic));
    assert_eq!(reader.every(), Duration::from_secs(30));
    let behind = until(&mut *reader, &group, |_| true).await;
    assert_eq!(behind, ConsumerLag::new(&topic, &group, Some(3), Some(1)));
    let consumer = work(consumer, 3).await;
    let lags = reader.read().await.unwrap();
    assert_eq!(lags, ConsumerLags::new(vec![ConsumerLag::new(&topic, &group, Some(0), Some(1))], ""));
    leave(consumer).await;
    post.deliver_until_ok(&events("e", 0..1)).await;
    let left = until(&mut *reader, &group, |lag| lag.members == Some(0)).await;
    assert_eq!(left.messages, Some(1), "a group that nobody is in is behind all the same");

    // One that has never seen the members finds the group, too.
    let mut other = self::reader(changed(options(&cluster.brokers, &topic), |o| {
        o.consumers = Some(LagOptions::default().names([group.clone()]));
    }));
    assert_eq!(other.read().await.unwrap().consumers, [left]);
    post.close().await;
}

#[tokio::test]
async fn topics_made_from_events_are_found_by_what_is_fixed_in_their_names() {
    let (cluster, prefix, group) = (Cluster::shared(), unique_name("shop"), unique_name("search"));
    let [placed, paid, dead, other] = ["placed", "paid", "dlq", "placed"].map(|name| format!("{prefix}.{name}"));
    for topic in [&placed, &paid, &dead, &format!("x{other}")] {
        cluster.create(topic, 1, &[]).await;
    }
    let mut post = post_to(&cluster, &placed);
    post.deliver_until_ok(&events("a", 0..2)).await;
    let topics = vec![placed.clone(), dead.clone(), format!("x{other}")];
    let consumer = work(member(&cluster, &group, topics).await, 1).await;
    let template = postroom_core::Template::parse("{prefix}.{type}", &[("prefix", &prefix)]).unwrap();
    let dlq = postroom_core::Template::parse("{prefix}.dlq", &[("prefix", &prefix)]).unwrap();
    let options = changed(options(&cluster.brokers, "t"), |o| (o.topic, o.dlq_topic) = (template, Some(dlq)));
    let mut reader = reader(options);
    let found = until(&mut *reader, &group, |_| true).await;
    assert_eq!(found, ConsumerLag::new(&placed, &group, Some(1), Some(1)));
    assert_eq!(reader.read().await.unwrap().consumers, [found], "it reads no other topic of the route");
    leave(consumer).await;
    post.close().await;
}

#[tokio::test]
async fn where_nobody_knows_the_topics_or_nobody_wants_to_know_there_is_no_reader() {
    let from_type = options("localhost:1", "{type}");
    let unwanted = changed(options("localhost:1", "t"), |o| o.consumers = None);
    for options in [from_type, unwanted] {
        assert!(kafka(options).lag_reader().is_none());
    }
}

#[tokio::test]
async fn a_group_that_may_not_be_seen_is_unknown_and_the_right_is_named() {
    let (cluster, group) = (Cluster::shared(), unique_name("secret"));
    let topic = unique_name("lagging");
    super::refusals::grant("Write", topic.clone()).await;
    cluster.create(&topic, 1, &[]).await;
    let brokers = format!("localhost:{}", Servers::find().site("kafka").port_of("sasl"));
    let password = Secret::new(PASSWORD);
    let sasl = Sasl { mechanism: Mechanism::ScramSha512, username: LIMITED_USER.to_owned(), password };
    let mut reader = reader(changed(options(&brokers, &topic), |o| {
        o.sasl = Some(sasl);
        o.consumers = Some(LagOptions::default().names([group.clone()]));
    }));
    let ConsumerLags { consumers, message } = reader.read().await.unwrap();
    assert_eq!((consumers[0].consumer.as_str(), consumers[0].messages), (group.as_str(), None));
    let said = format!(
        "kafka.lag_not_authorized: group {group}: Broker: Group authorization failed; grant this user DESCRIBE on it"
    );
    assert_eq!(message, said);
}

#[tokio::test]
async fn a_cluster_that_is_down_is_no_lag_but_a_failure() {
    let nobody = format!("127.0.0.1:{}", free_port().unwrap());
    let settings = changed(options(&nobody, "t"), |o| o.timeout = Duration::from_secs(2));
    let failure = reader(settings).read().await.unwrap_err();
    assert_eq!(failure.code, "kafka.unreachable", "{failure:?}");
    assert!(failure.error.contains(&nobody), "{}", failure.error);
}
