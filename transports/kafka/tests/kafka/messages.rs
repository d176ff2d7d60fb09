//! What stands in the topic.

use std::collections::HashSet;

use postroom_conformance::changed;
use postroom_core::{DeadLetterCause, Event, Failure, FailureKind, JSON, Outbound, Transport};
use postroom_kafka::{Acks, Compression, UnknownTopic};

use crate::cluster::Cluster;
use crate::kafka::workshop::{deliver, event, events, failure, kafka, options, post, post_to, template};

#[tokio::test]
async fn key_headers_body_and_receipt_are_the_events() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(3, &[]).await;
    let transport = kafka(options(&cluster.brokers, &topic));
    let event = Event::new("order.placed").id("e-1").aggregate("order", "o-7").header("traceparent", "00-a-b-01");
    let receipt = deliver(&transport, event.bytes(JSON, r#"{ "a": 1.0 }"#), |_| ()).await.unwrap();
    let records = cluster.read(&topic).await;
    let [record] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(record.key.as_deref(), Some("o-7"));
    assert_eq!(record.payload, r#"{ "a": 1.0 }"#);
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce_id", "e-1"),
        ("ce_type", "order.placed"),
        ("ce_source", "/postroom/test"),
        ("ce_partitionkey", "o-7"),
        ("traceparent", "00-a-b-01"),
    ] {
        assert_eq!(record.headers[name], value, "{name}");
    }
    let place = format!("{topic}[{}]@{}", record.partition, record.offset);
    assert_eq!(receipt.place.as_deref(), Some(place.as_str()));
    transport.close().await;
}

#[tokio::test]
async fn keys_are_where_javas_clients_put_them_and_events_without_one_anywhere() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(12, &[]).await;
    let mut post = post_to(&cluster, &topic);
    // As `Utils.toPositive(Utils.murmur2(key)) % 12` of Kafka's own client says.
    let places = [("order-1", murmur2(b"order-1")), ("a", murmur2(b"a")), ("größe", murmur2("größe".as_bytes()))];
    for (key, _) in places {
        post.deliver(&[event(key, key)]).await;
    }
    let mut without = Event::new("t").id("without");
    without.key = None;
    post.deliver(&[without]).await;
    assert!(post.outcomes().await.values().all(Result::is_ok));
    let records = cluster.read(&topic).await;
    for (key, hash) in places {
        let record = records.iter().find(|record| record.key.as_deref() == Some(key)).unwrap();
        assert_eq!(i64::from(record.partition), i64::from(hash & 0x7fff_ffff) % 12, "{key}");
    }
    assert!(records.iter().any(|record| record.id() == "without" && record.key.is_none()));
    post.close().await;
}

/// Java's, to the bit: `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h: u32 = 0x9747_b28c ^ u32::try_from(data.len()).unwrap();
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    for (n, byte) in rest.iter().enumerate().rev() {
        h ^= u32::from(*byte) << (8 * n);
    }
    if !rest.is_empty() {
        h = h.wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    h ^ (h >> 15)
}

#[test]
fn the_hash_of_this_test_is_javas() {
    // From `UtilsTest.testMurmur2` of Apache Kafka.
    for (text, hash) in [("21", -973_932_308), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)] {
        assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
    }
}

#[tokio::test]
async fn a_dead_event_goes_to_the_dlq_topic_with_why_it_died() {
    let cluster = Cluster::shared();
    let (topic, dlq) = (cluster.topic(1, &[]).await, cluster.topic(1, &[]).await);
    let transport = kafka(changed(options(&cluster.brokers, &topic), |o| o.dlq_topic = Some(template(&dlq))));
    assert!(transport.capabilities().takes_dead_letters);
    let as_dead_letter = |outbound: &mut Outbound| {
        let failure = Failure::permanent("schema.invalid", "no such field");
        outbound.dead_letter =
            Some(Box::new(DeadLetterCause { failure, attempts: 3, at: "2026-01-02T03:04:05Z".parse().unwrap() }));
    };
    // It cannot say for itself why it died.
    let dead = event("dead", "k").header("postroom-error", "nothing happened");
    let receipt = deliver(&transport, dead, as_dead_letter).await.unwrap();
    assert_eq!(receipt.place.as_deref(), Some(format!("{dlq}[0]@0").as_str()));
    let records = cluster.read(&dlq).await;
    assert_eq!((records[0].key.as_deref(), records[0].id()), (Some("k"), "dead"));
    assert_eq!(records[0].payload, r#"{"secret":"canary"}"#);
    for (name, value) in [
        ("postroom-failure-code", "schema.invalid"),
        ("postroom-error", "no such field"),
        ("postroom-attempts", "3"),
        ("postroom-failed-at", "2026-01-02T03:04:05Z"),
        ("postroom-route", "parcels"),
    ] {
        assert_eq!(records[0].headers[name], value, "{name}");
    }
    assert!(cluster.read(&topic).await.is_empty());
    transport.close().await;
    assert!(!kafka(options(&cluster.brokers, &topic)).capabilities().takes_dead_letters);
}

#[tokio::test]
async fn a_name_that_no_topic_can_have_kills_its_event_only() {
    let cluster = Cluster::shared();
    let tenant = cluster.topic(1, &[]).await;
    let mut post = post_to(&cluster, "{tenant}");
    let (long, bad) = ("x".repeat(250), event("bad", "k").tenant("größe"));
    post.deliver(&[bad, event("long", "k").tenant(long), event("good", "k").tenant(&tenant), event("none", "k")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["good"].is_ok(), "{outcomes:?}");
    for (id, code) in [("bad", "kafka.topic_name"), ("long", "kafka.topic_name"), ("none", "template.missing")] {
        let failure = outcomes[id].as_ref().unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, code), "{id}");
    }
    post.close().await;
}

#[tokio::test]
async fn every_codec_and_every_choice_of_acks_delivers() {
    let cluster = Cluster::shared();
    let codecs = [Compression::None, Compression::Gzip, Compression::Lz4, Compression::Snappy, Compression::Zstd];
    for (codec, acks) in codecs.into_iter().zip([Acks::All, Acks::All, Acks::Leader, Acks::None, Acks::All]) {
        let topic = cluster.topic(1, &[]).await;
        let settings = changed(options(&cluster.brokers, &topic), |o| {
            o.compression = codec;
            o.acks = acks;
        });
        assert_eq!(kafka(settings.clone()).capabilities().pipelines_key, acks == Acks::All);
        let retries = changed(settings.clone(), |o| o.unknown_topic = UnknownTopic::Retry);
        assert!(!kafka(retries).capabilities().pipelines_key, "what follows a failed one waits for its turn");
        let mut post = post(settings);
        let sent = events("k", 0..50);
        post.deliver_until_ok(&sent).await;
        if acks != Acks::None {
            let ids: Vec<String> = cluster.read(&topic).await.iter().map(|record| record.id().to_owned()).collect();
            assert_eq!(ids, sent.iter().map(|event| event.id.clone()).collect::<Vec<_>>(), "{codec:?}");
        }
        post.close().await;
    }
}

#[tokio::test]
async fn an_event_without_a_key_is_refused_for_a_compacted_topic() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[("cleanup.policy", "compact")]).await;
    let mut post = post_to(&cluster, &topic);
    let mut without = event("without", "");
    without.key = None;
    let failure = failure(&mut post, without).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "kafka.no_key"));
    post.deliver_until_ok(&[event("with", "k")]).await;
    let ids: HashSet<String> = cluster.read(&topic).await.iter().map(|record| record.id().to_owned()).collect();
    assert_eq!(ids, HashSet::from(["with".to_owned()]));
    post.close().await;
}
