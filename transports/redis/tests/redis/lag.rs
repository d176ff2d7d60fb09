//! Lag of a stream's groups.

use postroom_conformance::changed;
use postroom_core::{ConsumerLag, ConsumerLags, LagOptions, LagReader, SecretUrl, Transport as _};
use postroom_redis::RedisOptions;
use postroom_testbed::FaultProxy;
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD};
use postroom_testbed::proxy::Mode;
use redis::Value;

use crate::streams::{LONG, Stream, events, fixed, post, redis};

fn reader(options: RedisOptions) -> Box<dyn LagReader> {
    redis(options).lag_reader().expect("a reader")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_behind_by_what_it_was_not_given_and_has_not_acknowledged() {
    let stream = Stream::new();
    let name = &stream.name;
    let mut reader = reader(stream.options(stream.port, LONG));
    assert_eq!(reader.read().await.unwrap(), ConsumerLags::default(), "nobody reads a stream that is not there");
    post(stream.options(stream.port, LONG)).deliver_until_ok(&events("e", 5)).await;
    let _: Value = stream.ask(&format!("XGROUP CREATE {name} billing 0")).await;
    let _: Value = stream.ask(&format!("XGROUP CREATE {name} search $")).await;
    let lag = |group: &str, messages, members| ConsumerLag::new(name, group, Some(messages), Some(members));
    let both = |billing| ConsumerLags::new(vec![billing, lag("search", 0, 0)], "");
    assert_eq!(reader.read().await.unwrap(), both(lag("billing", 5, 0)), "a group that nobody reads");

    let _: Value = stream.ask(&format!("XREADGROUP GROUP billing worker COUNT 3 STREAMS {name} >")).await;
    assert_eq!(reader.read().await.unwrap(), both(lag("billing", 5, 1)), "given is not finished");
    let given: Vec<(String, Value, Value, Value)> = stream.ask(&format!("XPENDING {name} billing - + 9")).await;
    for (id, ..) in &given[..2] {
        let _: Value = stream.ask(&format!("XACK {name} billing {id}")).await;
    }
    assert_eq!(reader.read().await.unwrap(), both(lag("billing", 3, 1)));
    let _: Value = stream.ask(&format!("XACK {name} billing {}", given[2].0)).await;
    let _: Value = stream.ask(&format!("XREADGROUP GROUP billing worker NOACK STREAMS {name} >")).await;
    assert_eq!(reader.read().await.unwrap(), both(lag("billing", 0, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_server_cannot_count_the_lag_is_unknown_unless_the_ids_tell_it() {
    let stream = Stream::new();
    let name = &stream.name;
    post(stream.options(stream.port, LONG)).deliver_until_ok(&events("e", 5)).await;
    let ids: Vec<(String, Value)> = stream.ask(&format!("XRANGE {name} - +")).await;
    // A group in the middle of a stream of which an entry behind it was deleted: nobody counts what is ahead.
    for (group, at) in [("middle", 1), ("end", 4)] {
        let _: Value = stream.ask(&format!("XGROUP CREATE {name} {group} {}", ids[at].0)).await;
    }
    let _: Value = stream.ask(&format!("XDEL {name} {}", ids[3].0)).await;
    let mut reader = reader(changed(stream.options(stream.port, LONG), |o| {
        o.consumers = Some(LagOptions::default().names(["end", "middle", "nobody"]));
    }));
    let lags = reader.read().await.unwrap();
    let found: Vec<_> = lags.consumers.iter().map(|lag| (&*lag.consumer, lag.messages, lag.members)).collect();
    assert_eq!(found, [("end", Some(0), Some(0)), ("middle", None, Some(0)), ("nobody", None, None)]);
    let said = format!(
        "the server cannot tell how many entries group middle has not been given; stream {name} has no group nobody"
    );
    assert_eq!(lags.message, said);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_stream_that_is_known_there_is_no_reader() {
    let options = Stream::new().options(1, LONG);
    for options in
        [changed(options.clone(), |o| o.stream = fixed("s.{type}")), changed(options, |o| o.consumers = None)]
    {
        assert!(redis(options).lag_reader().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_not_look_is_told_the_right() {
    let stream = Stream::new();
    let url = SecretUrl::new(format!("redis://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}", stream.port));
    let failure = reader(changed(stream.options(stream.port, LONG), |o| o.url = url)).read().await.unwrap_err();
    assert_eq!(failure.code, "redis.permission", "{failure:?}");
    assert!(failure.error.contains("+xinfo") && !failure.error.contains(PASSWORD), "{}", failure.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_no_lag_but_a_failure_until_it_is_back() {
    let stream = Stream::new();
    let proxy = FaultProxy::to(stream.port).await;
    let mut reader = reader(stream.options(proxy.port(), LONG));
    assert!(reader.read().await.is_ok());
    proxy.set(Mode::Refuse).await;
    assert_eq!(reader.read().await.unwrap_err().code, "redis.unreachable");
    proxy.set(Mode::Pass).await;
    assert!(reader.read().await.is_ok());
    proxy.until(|counts| counts.open() == 0).await;
}
