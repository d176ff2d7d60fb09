//! Errors that a real broker cannot be made to give, from librdkafka's own mock cluster.

use std::time::Duration;

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::FailureKind;
use postroom_kafka::UnknownTopic;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Answer};

use crate::cluster::{Cluster, Record};
use crate::kafka::workshop::{deliver_to_the_end, event, events, failure, logged, options, post, post_to};

type Mock = MockCluster<'static, DefaultProducerContext>;

/// A mock with one broker and one topic, for this test alone.
fn mock(topic: &str) -> (Mock, Cluster) {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic(topic, 1, 1).unwrap();
    let cluster = Cluster { brokers: mock.bootstrap_servers() };
    (mock, cluster)
}

/// Ids in the order of their first appearance.
fn first_deliveries(records: &[Record]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for record in records {
        if !ids.iter().any(|id| id == record.id()) {
            ids.push(record.id().to_owned());
        }
    }
    ids
}

fn numbered(key: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("{key}-{n}")).collect()
}

#[tokio::test]
async fn an_answer_of_any_other_kind_is_an_outage_for_all_and_kills_nobody() {
    for error in [
        Answer::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
        Answer::RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS,
        Answer::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
    ] {
        let (mock, cluster) = mock("t");
        let mut post = post(changed(options(&cluster.brokers, "t"), |o| o.linger = Duration::from_millis(50)));
        post.deliver_until_ok(&events("k", 0..1)).await;
        mock.request_errors(Api::Produce, &[error]);
        post.deliver(&events("k", 1..20)).await;
        for (id, outcome) in post.outcomes().await {
            let failure = outcome.unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.refused"), "{id}");
        }
        let (ends, _) = deliver_to_the_end(&mut post, &events("k", 1..20)).await;
        assert!(ends.values().all(Result::is_ok), "{ends:?}");
        assert_eq!(first_deliveries(&cluster.read("t").await), numbered("k", 0..20));
        post.close().await;
    }
}

/// H-44.
#[tokio::test]
async fn a_batch_refused_as_too_large_comes_one_by_one_and_only_the_culprit_dies() {
    let (mock, cluster) = mock("t");
    let mut post = post(changed(options(&cluster.brokers, "t"), |o| o.linger = Duration::from_millis(50)));
    post.deliver_until_ok(&events("k", 0..1)).await;
    // Once for the batch, and once for the third of its events alone.
    let (fine, large) = (Answer::RD_KAFKA_RESP_ERR_NO_ERROR, Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    mock.request_errors(Api::Produce, &[large, fine, fine, large]);
    let (ends, rounds) = deliver_to_the_end(&mut post, &events("k", 1..30)).await;
    let dead: Vec<&String> = ends.iter().filter(|(_, end)| end.is_err()).map(|(id, _)| id).collect();
    let [dead] = dead[..] else { panic!("{dead:?} died") };
    let failure = ends[dead].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "kafka.too_large"));
    assert_eq!(rounds, 3);
    let expected: Vec<String> = numbered("k", 0..30).into_iter().filter(|id| id != dead).collect();
    assert_eq!(first_deliveries(&cluster.read("t").await), expected);
    post.close().await;
}

/// H-46.
#[tokio::test]
async fn what_was_possibly_written_when_the_time_ran_out_is_sent_again_in_order() {
    let (mock, cluster) = mock("t");
    let timeout = Duration::from_millis(1500);
    let mut post = post(changed(options(&cluster.brokers, "t"), |o| {
        o.timeout = timeout;
        o.linger = Duration::ZERO;
    }));
    post.deliver_until_ok(&events("k", 0..1)).await;
    mock.broker_round_trip_time(1, timeout * 3).unwrap();
    for n in 1..20 {
        post.deliver(&events("k", n..n + 1)).await;
    }
    for (id, outcome) in post.outcomes().await {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.timeout"), "{id}");
        assert!(failure.error.contains("k-1 was not acknowledged within 1500ms"), "{}", failure.error);
    }
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    let (ends, _) = deliver_to_the_end(&mut post, &events("k", 1..20)).await;
    assert!(ends.values().all(Result::is_ok), "{ends:?}");
    assert_eq!(first_deliveries(&cluster.read("t").await), numbered("k", 0..20));
    post.close().await;
}

/// H-47.
#[tokio::test]
async fn after_a_fatal_error_of_the_producer_a_new_one_goes_on_in_order() {
    let (mock, cluster) = mock("fatal");
    // All in one request: the mock does not count, as a broker does, and would take those behind it.
    let mut post = post(changed(options(&cluster.brokers, "fatal"), |o| o.linger = Duration::from_millis(50)));
    post.deliver_until_ok(&events("k", 0..1)).await;
    mock.request_errors(Api::Produce, &[Answer::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER]);
    post.deliver(&events("k", 1..20)).await;
    for (id, outcome) in post.outcomes().await {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.fatal"), "{id}: {failure:?}");
    }
    let warned = logged("kafka.fatal").iter().any(|line| line.contains("WARN") && line.contains("given_up=19"));
    assert!(warned, "{:?}", logged("kafka.fatal"));
    let (ends, _) = deliver_to_the_end(&mut post, &events("k", 1..20)).await;
    assert!(ends.values().all(Result::is_ok), "{ends:?}");
    assert_eq!(first_deliveries(&cluster.read("fatal").await), numbered("k", 0..20));
    post.close().await;
}

/// The engine hears of a failure a moment after it happened.
#[tokio::test]
async fn what_is_handed_over_before_a_failure_is_heard_of_waits_behind_it() {
    let (mock, cluster) = mock("t");
    let mut post = post_to(&cluster, "t");
    post.deliver_until_ok(&events("k", 0..1)).await;
    mock.request_errors(Api::Produce, &[Answer::RD_KAFKA_RESP_ERR_POLICY_VIOLATION]);
    post.deliver(&events("k", 1..2)).await;
    until("the failure is reported", async || !post.is_silent()).await;
    post.deliver(&[event("k-2", "k"), event("other", "o")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["k-1"].is_err());
    assert_eq!(outcomes["k-2"].as_ref().unwrap_err().code, "kafka.behind");
    assert!(outcomes["other"].is_ok(), "{outcomes:?}");
    post.deliver_until_ok(&events("k", 1..3)).await;
    assert_eq!(first_deliveries(&cluster.read("t").await), ["k-0", "other", "k-1", "k-2"]);
    post.close().await;
}

/// A route without order may send another event of the key first, and what was given up much later.
#[tokio::test]
async fn once_the_failure_is_heard_of_whichever_comes_first_of_its_key_goes() {
    let (mock, cluster) = mock("t");
    let mut post = post_to(&cluster, "t");
    post.deliver_until_ok(&events("k", 0..1)).await;
    mock.request_errors(Api::Produce, &[Answer::RD_KAFKA_RESP_ERR_POLICY_VIOLATION]);
    post.deliver(&events("k", 1..2)).await;
    assert!(post.outcome().await.1.is_err());
    for number in 2..5 {
        post.deliver(&events("k", number..number + 1)).await;
        assert!(post.outcome().await.1.is_ok());
    }
    post.deliver_until_ok(&events("k", 1..2)).await;
    assert_eq!(first_deliveries(&cluster.read("t").await), ["k-0", "k-2", "k-3", "k-4", "k-1"]);
    post.close().await;
}

/// The engine sends the next of a key when it has heard of the one before, unless order does not matter.
#[tokio::test]
async fn where_keys_are_not_pipelined_nothing_waits_behind_a_failure() {
    let (mock, cluster) = mock("t");
    let options = changed(options(&cluster.brokers, "t"), |o| o.unknown_topic = UnknownTopic::Retry);
    let mut post = post(options);
    post.deliver_until_ok(&events("k", 0..1)).await;
    mock.request_errors(Api::Produce, &[Answer::RD_KAFKA_RESP_ERR_POLICY_VIOLATION]);
    post.deliver(&events("k", 1..2)).await;
    until("the failure is reported", async || !post.is_silent()).await;
    post.deliver(&[event("k-2", "k")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["k-1"].is_err() && outcomes["k-2"].is_ok(), "{outcomes:?}");
    post.close().await;
}

#[tokio::test]
async fn one_who_may_write_nowhere_is_told_which_right_is_missing() {
    let (mock, cluster) = mock("t");
    let refusals = [Answer::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 3];
    mock.request_errors(Api::InitProducerId, &refusals);
    let mut post = post_to(&cluster, "t");
    let failure = failure(&mut post, events("k", 0..1).remove(0)).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.not_authorized"), "{failure:?}");
    assert!(failure.error.contains("WRITE"), "{}", failure.error);
    mock.clear_request_errors(Api::InitProducerId);
    post.deliver_until_ok(&events("k", 0..1)).await;
    post.close().await;
}

#[tokio::test]
async fn what_a_leader_election_refuses_for_a_moment_gets_through_without_an_outage() {
    let (mock, cluster) = mock("t");
    let mut post = post_to(&cluster, "t");
    post.deliver_until_ok(&events("k", 0..1)).await;
    mock.request_errors(
        Api::Produce,
        &[
            Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            Answer::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        ],
    );
    post.deliver(&events("k", 1..20)).await;
    assert!(post.outcomes().await.values().all(Result::is_ok));
    assert_eq!(first_deliveries(&cluster.read("t").await), numbered("k", 0..20));
    post.close().await;
}

/// H-50.
#[tokio::test]
async fn a_full_window_makes_us_wait_for_acknowledgements_and_nothing_else() {
    let (mock, cluster) = mock("full");
    let mut post = post_to(&cluster, "full");
    post.deliver_until_ok(&events("k", 0..1)).await;
    let waits = || logged("in-flight window is full").len();
    // Until the first is acknowledged, more are handed over than may be on their way.
    mock.broker_round_trip_time(1, Duration::from_secs(20)).unwrap();
    post.deliver(&events("k", 1..12_000)).await;
    until("it to be full", async || waits() > 0).await;
    assert!(post.is_silent(), "it did not wait");
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    assert!(post.outcomes().await.values().all(Result::is_ok));
    assert!(waits() < 50, "it looked {} times", waits());
    let records = cluster.read("full").await;
    let ids: Vec<&str> = records.iter().map(Record::id).collect();
    assert_eq!(ids, numbered("k", 0..12_000));
    post.close().await;
}
