//! Keys stay in order: pipelined, over several topics, and when a part of them fails.

use std::collections::HashMap;
use std::time::Duration;

use postroom_conformance::changed;
use postroom_core::{Event, JSON};

use crate::cluster::{Cluster, Record};
use crate::kafka::workshop::{deliver_to_the_end, event, events, options, post, post_to};

fn ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(Record::id).collect()
}

fn ids_of(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

#[tokio::test]
async fn a_hot_key_is_pipelined_and_stays_in_order() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(3, &[]).await;
    let mut post = post(changed(options(&cluster.brokers, &topic), |o| o.linger = Duration::ZERO));
    post.deliver_until_ok(&[event("first", "hot")]).await;
    let sent = events("hot", 0..3000);
    let begun = std::time::Instant::now();
    for batch in sent.chunks(50) {
        post.deliver(batch).await;
    }
    assert!(post.outcomes().await.values().all(Result::is_ok));
    // One at a time would take a round trip of a millisecond and more each.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(ids(&cluster.read(&topic).await)[1..], ids_of(&sent));
    post.close().await;
}

#[tokio::test]
async fn a_key_that_goes_to_two_topics_is_acknowledged_by_one_before_it_goes_to_the_other() {
    let cluster = Cluster::shared();
    let topics = [cluster.topic(1, &[]).await, cluster.topic(1, &[]).await];
    let mut post = post_to(&cluster, "{tenant}");
    // Two of each in a row, in both keys.
    let to = |key: &str, n: usize| event(&format!("{key}-{n:03}"), key).tenant(&topics[n / 2 % 2]);
    let sent: Vec<Event> = (0..40).flat_map(|n| [to("a", n), to("b", n)]).collect();
    post.deliver(&sent).await;
    let mut order: HashMap<String, Vec<String>> = HashMap::new();
    for _ in 0..sent.len() {
        let (event, outcome) = post.outcome().await;
        assert!(outcome.is_ok(), "{outcome:?}");
        order.entry(event.key.unwrap()).or_default().push(event.id);
    }
    for (key, acknowledged) in order {
        assert!(acknowledged.is_sorted(), "{key} was acknowledged in another order: {acknowledged:?}");
    }
    for topic in &topics {
        let records = cluster.read(topic).await;
        assert_eq!(records.len(), 40);
        for key in ["a-", "b-"] {
            assert!(ids(&records).iter().filter(|id| id.starts_with(key)).is_sorted(), "{records:?}");
        }
    }
    post.close().await;
}

/// H-04.
#[tokio::test]
async fn nothing_of_a_key_is_written_after_a_part_of_it_failed() {
    let cluster = Cluster::shared();
    // Batches hold two of these, so many requests are on their way at once.
    let topic = cluster.topic(1, &[("max.message.bytes", "200000")]).await;
    let sized = |n: usize, bytes| event(&format!("k-{n}"), "k").bytes(JSON, format!("\"{}\"", "x".repeat(bytes)));
    let mut sent: Vec<Event> = (0..40).map(|n| sized(n, 70_000)).collect();
    sent[20] = sized(20, 160_000);
    let mut post = post(changed(options(&cluster.brokers, &topic), |o| o.linger = Duration::ZERO));
    post.deliver_until_ok(&[event("first", "k")]).await;
    cluster.set(&topic, "max.message.bytes", "150000").await;
    post.deliver(&sent).await;
    let outcomes = post.outcomes().await;
    let got_through = outcomes.values().filter(|outcome| outcome.is_ok()).count();
    assert!(got_through <= 20, "the broker takes everything");
    for (n, event) in sent.iter().enumerate() {
        assert_eq!(outcomes[&event.id].is_ok(), n < got_through, "{} and an earlier one part", event.id);
    }
    let written = cluster.read(&topic).await;
    assert_eq!(ids(&written)[1..], ids_of(&sent)[..written.len() - 1], "there is a gap");
    // Sent again from the first that failed, only the culprit is missing.
    let (ends, _) = deliver_to_the_end(&mut post, &sent[got_through..]).await;
    for (id, end) in &ends {
        assert_eq!(end.is_ok(), id != "k-20", "{id}: {end:?}");
    }
    let mut first: Vec<String> = Vec::new();
    for record in cluster.read(&topic).await {
        if !first.iter().any(|id| id == record.id()) {
            first.push(record.id().to_owned());
        }
    }
    let expected: Vec<&str> = ids_of(&sent).into_iter().filter(|id| *id != "k-20").collect();
    assert_eq!(first[1..], expected);
    post.close().await;
}
