//! H-45: a topic that is missing, goes away, or is not ours is the route's trouble, and nobody dies of it.

use std::time::Instant;

use postroom_conformance::changed;
use postroom_core::{FailureKind, Secret};
use postroom_kafka::{KafkaOptions, Mechanism, Sasl};
use postroom_testbed::brokers::{Kafka as Server, LIMITED_USER, PASSWORD};
use postroom_testbed::{Servers, run, unique_name};
use tokio::task::spawn_blocking;

use crate::cluster::Cluster;
use crate::kafka::workshop::{deliver_to_the_end, event, events, failure, kafka, logged, options, post, post_to};

#[tokio::test]
async fn a_missing_topic_is_named_at_once_and_kills_nobody() {
    let cluster = Cluster::shared();
    let topic = unique_name("missing");
    let mut post = post_to(&cluster, &topic);
    let asked = Instant::now();
    let failure = failure(&mut post, event("a", "k")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.unknown_topic"));
    assert!(failure.error.contains(&topic), "{}", failure.error);
    assert!(asked.elapsed().as_secs() < 10, "{:?}", asked.elapsed());
    cluster.create(&topic, 1, &[]).await;
    post.deliver_until_ok(&[event("a", "k")]).await;
    post.close().await;
}

#[tokio::test]
async fn a_topic_deleted_at_run_time_is_named_and_a_new_one_of_its_name_is_found() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[]).await;
    let mut post = post_to(&cluster, &topic);
    post.deliver_until_ok(&events("k", 0..3)).await;
    cluster.delete(&topic).await;
    let asked = Instant::now();
    let failure = failure(&mut post, event("k-3", "k")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.unknown_topic"), "{failure:?}");
    assert!(failure.error.contains(&topic), "{}", failure.error);
    assert!(asked.elapsed().as_secs() < 20, "{:?}", asked.elapsed());
    // H-48: the new one has more partitions, and keys may be elsewhere.
    cluster.create(&topic, 5, &[]).await;
    post.deliver_until_ok(&events("k", 3..6)).await;
    let ids: Vec<String> = cluster.read(&topic).await.iter().map(|record| record.id().to_owned()).collect();
    assert_eq!(ids, ["k-3", "k-4", "k-5"]);
    let warnings: Vec<String> =
        logged(&topic).into_iter().filter(|line| line.contains("number of partitions")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("WARN") && warnings[0].contains("before=1") && warnings[0].contains("now=5"));
    post.close().await;
}

#[tokio::test]
async fn a_missing_topic_of_a_route_with_many_holds_back_its_own_events_and_those_behind_them() {
    let cluster = Cluster::shared();
    let (there, missing) = (cluster.topic(1, &[]).await, unique_name("missing"));
    let mut post = post_to(&cluster, "{tenant}");
    let to = |id: &str, key: &str, tenant: &str| event(id, key).tenant(tenant);
    let sent = [
        to("a1", "a", &there),
        to("b1", "b", &missing),
        to("a2", "a", &there),
        to("b2", "b", &there),
        to("c1", "c", &there),
    ];
    post.deliver(&sent).await;
    let outcomes = post.outcomes().await;
    for id in ["a1", "a2", "c1"] {
        assert!(outcomes[id].is_ok(), "{id}: {:?}", outcomes[id]);
    }
    for (id, code) in [("b1", "kafka.unknown_topic"), ("b2", "kafka.behind")] {
        let failure = outcomes[id].as_ref().unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, code), "{id}");
    }
    cluster.create(&missing, 1, &[]).await;
    let (ends, _) = deliver_to_the_end(&mut post, &[sent[1].clone(), sent[3].clone()]).await;
    assert!(ends.values().all(Result::is_ok), "{ends:?}");
    post.close().await;
}

/// As the user who may log in and do nothing.
fn limited(brokers: &str, topic: &str) -> KafkaOptions {
    let password = Secret::new(PASSWORD);
    let sasl = Sasl { mechanism: Mechanism::ScramSha512, username: LIMITED_USER.to_owned(), password };
    changed(options(brokers, topic), |o| o.sasl = Some(sasl))
}

#[tokio::test]
async fn a_topic_that_is_not_ours_is_named_and_kills_nobody() {
    let (cluster, servers) = (Cluster::shared(), Servers::find());
    let topic = cluster.topic(1, &[]).await;
    let brokers = format!("localhost:{}", servers.site("kafka").port_of("sasl"));
    let mut post = post(limited(&brokers, &topic));
    let failure = failure(&mut post, event("a", "k")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.not_authorized"), "{failure:?}");
    assert!(failure.error.contains(&topic) && !failure.error.contains(PASSWORD), "{}", failure.error);
    assert!(post.close().await.is_empty());
}

/// Lets the limited user do this with all topics whose names begin like that.
pub(super) async fn grant(operation: &'static str, prefix: String) {
    let port = Servers::find().port("kafka");
    let grant = move || {
        let mut tool = Server::tool("org.apache.kafka.tools.AclCommand")?;
        tool.args(["--bootstrap-server", &format!("127.0.0.1:{port}"), "--add", "--allow-principal"]);
        tool.args([&format!("User:{LIMITED_USER}"), "--operation", operation, "--topic", &prefix]);
        run(tool.args(["--resource-pattern-type", "prefixed"]))
    };
    spawn_blocking(grant).await.unwrap().unwrap();
}

#[tokio::test]
async fn with_the_right_to_write_and_nothing_else_events_are_delivered_and_what_is_too_large_is_found_by_trying() {
    let (cluster, servers) = (Cluster::shared(), Servers::find());
    let (mine, seen) = (unique_name("writable"), unique_name("visible"));
    grant("Write", mine.clone()).await;
    grant("Describe", seen.clone()).await;
    cluster.create(&mine, 1, &[("max.message.bytes", "4000")]).await;
    cluster.create(&seen, 1, &[]).await;
    let brokers = format!("localhost:{}", servers.site("kafka").port_of("sasl"));

    // Its limit may not be read: a batch is refused, and its events come one by one until the culprit is found.
    let settings = changed(limited(&brokers, &mine), |o| o.linger = std::time::Duration::from_millis(50));
    let mut post = post(settings);
    let mut sent = events("k", 0..60);
    sent[30] = sent[30].clone().bytes(postroom_core::JSON, format!("\"{}\"", "x".repeat(5000)));
    let (ends, rounds) = deliver_to_the_end(&mut post, &sent).await;
    for (id, end) in &ends {
        match end {
            Ok(_) => assert_ne!(id, "k-30"),
            Err(failure) => {
                assert_eq!(
                    (id.as_str(), failure.kind, &*failure.code),
                    ("k-30", FailureKind::Permanent, "kafka.too_large")
                );
            }
        }
    }
    assert!((2..10).contains(&rounds), "{rounds}");
    let mut ids: Vec<usize> = Vec::new();
    for record in cluster.read(&mine).await {
        let number = record.id()[2..].parse().unwrap();
        if !ids.contains(&number) {
            ids.push(number);
        }
    }
    assert_eq!(ids, (0..60).filter(|n| *n != 30).collect::<Vec<_>>(), "first deliveries are out of order");
    // From here on it is only their sum, and batches get smaller until they fit.
    let (ends, rounds) = deliver_to_the_end(&mut post, &events("m", 0..200)).await;
    assert!(ends.values().all(Result::is_ok), "{ends:?}");
    assert!(rounds < 30, "{rounds}");
    post.close().await;

    // A topic it may see and not write to is refused by the broker, and the others go on without it.
    let mut post = crate::kafka::workshop::post(limited(&brokers, "{tenant}"));
    let (bad, good) = (event("bad", "b").tenant(&seen), event("good", "g").tenant(&mine));
    post.deliver(&[bad.clone(), good.clone()]).await;
    let failure = post.outcomes().await.remove("bad").unwrap().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.not_authorized"), "{failure:?}");
    assert!(failure.error.contains(&seen), "{}", failure.error);
    for n in 0..20 {
        post.deliver(&[bad.clone(), event(&format!("good-{n}"), "g").tenant(&mine)]).await;
        let outcomes = post.outcomes().await;
        assert!(outcomes["bad"].is_err());
        assert!(n == 0 || outcomes[&format!("good-{n}")].is_ok(), "{outcomes:?}");
    }
    post.close().await;
    assert!(logged(PASSWORD).is_empty(), "a password was logged");
    drop(kafka(limited(&brokers, &mine)));
}
