//! H-44: what is too large dies alone, and as far as it can be known before it is sent.

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::{Event, FailureKind, JSON};

use crate::cluster::Cluster;
use crate::kafka::workshop::{deliver_to_the_end, event, events, failure, kafka, logged, options, post, post_to};

const LIMIT: usize = 20_000;

/// An event whose body has so many bytes; its time is always written with as many digits.
fn sized(id: &str, bytes: usize) -> Event {
    let mut event = event(id, "k").bytes(JSON, format!("\"{}\"", "x".repeat(bytes - 2)));
    event.occurred_at = "2026-01-02T03:04:05Z".parse().unwrap();
    event
}

/// What an event of this id weighs as a message beside its body.
async fn overhead(cluster: &Cluster, topic: &str, id: &str) -> usize {
    let failure = failure(&mut post_to(cluster, topic), sized(id, LIMIT)).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "kafka.too_large"));
    let words: Vec<&str> = failure.error.split(' ').collect();
    let bytes: usize = words[words.iter().position(|word| *word == "has").unwrap() + 1].parse().unwrap();
    bytes - LIMIT
}

#[tokio::test]
async fn the_largest_message_a_topic_takes_is_delivered_and_one_byte_more_is_refused_before_it_is_sent() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    let overhead = overhead(&cluster, &topic, "exact").await;
    let mut post = post_to(&cluster, &topic);
    let (exact, over) = (sized("exact", LIMIT - overhead), sized("0over", LIMIT - overhead + 1));
    post.deliver(&[event("before", "k"), exact, over, event("after", "k")]).await;
    let outcomes = post.outcomes().await;
    for id in ["before", "exact", "after"] {
        assert!(outcomes[id].is_ok(), "{id}: {:?}", outcomes[id]);
    }
    let failure = outcomes["0over"].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "kafka.too_large"));
    assert!(failure.error.contains(&format!("has {} bytes", LIMIT + 1)), "{}", failure.error);
    post.close().await;
}

#[tokio::test]
async fn a_limit_lowered_at_run_time_kills_only_what_is_too_large_for_it() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    let overhead = overhead(&cluster, &topic, "exact").await;
    let mut post = post_to(&cluster, &topic);
    post.deliver_until_ok(&[event("first", "k")]).await;
    // The broker is one byte stricter than we know: it says no to what we let through.
    cluster.set(&topic, "max.message.bytes", &(LIMIT - 1).to_string()).await;
    let sent = [event("before", "k"), sized("exact", LIMIT - overhead), event("after", "k"), event("other", "o")];
    let (ends, rounds) = deliver_to_the_end(&mut post, &sent).await;
    for id in ["before", "after", "other"] {
        assert!(ends[id].is_ok(), "{id}: {:?}", ends[id]);
    }
    let failure = ends["exact"].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "kafka.too_large"));
    assert!(rounds > 1, "the broker took it");
    post.close().await;
}

#[tokio::test]
async fn a_limit_raised_at_run_time_is_looked_up_before_an_event_dies_of_the_old_one() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[("max.message.bytes", &LIMIT.to_string())]).await;
    let mut post = post_to(&cluster, &topic);
    post.deliver_until_ok(&[event("first", "k")]).await;
    cluster.set(&topic, "max.message.bytes", &(LIMIT * 2).to_string()).await;
    // What was looked up just now is believed for a moment.
    let post = tokio::sync::Mutex::new(post);
    until("the new limit to be known", async || {
        let mut post = post.lock().await;
        post.deliver(&[sized("large", LIMIT + 100)]).await;
        post.outcome().await.1.is_ok()
    })
    .await;
    post.into_inner().close().await;
}

#[tokio::test]
async fn batches_stay_below_what_the_topic_takes() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[("max.message.bytes", "4000")]).await;
    let settings = changed(options(&cluster.brokers, &topic), |o| o.linger = std::time::Duration::from_millis(50));
    let mut post = post(settings);
    post.deliver(&events("k", 0..300)).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes.values().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(cluster.read(&topic).await.len(), 300);
    post.close().await;
}

#[tokio::test]
async fn the_topics_limit_is_a_capability_once_it_is_known() {
    use postroom_conformance::transports::Post;
    use postroom_core::Transport;
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[("max.message.bytes", "4000")]).await;
    let transport = kafka(options(&cluster.brokers, &topic));
    assert_eq!(transport.capabilities().envelope_bytes_max, None);
    let mut post = Post::new(transport.clone());
    post.deliver_until_ok(&[event("a", "k")]).await;
    assert_eq!(transport.capabilities().envelope_bytes_max, Some(4000));
    assert_eq!(logged("canary").len(), 0, "a payload was logged");
    drop(transport);
    post.close().await;
}
