//! Lag of a stream's consumers.

use std::time::Duration;

use async_nats::jetstream::consumer::{pull, push};
use async_nats::jetstream::{self, AckKind};
use futures_util::StreamExt as _;
use postroom_conformance::changed;
use postroom_core::{ConsumerLag, ConsumerLags, LagOptions, LagReader, SecretUrl, Transport as _};
use postroom_nats::NatsOptions;
use postroom_testbed::brokers::{NatsWith, PASSWORD};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, OwnServer, Servers};

use crate::nats::streams::{LONG, Stream, events, nats, post};

fn reader(options: NatsOptions) -> Box<dyn LagReader> {
    nats(options).lag_reader().expect("a reader")
}

/// What is read when one consumer is so.
async fn until(reader: &mut dyn LagReader, name: &str, so: impl Fn(&ConsumerLag) -> bool) -> ConsumerLags {
    loop {
        let lags = reader.read().await.expect("the server answers");
        if lags.consumers.iter().any(|lag| lag.consumer == name && so(lag)) {
            return lags;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_consumer_is_behind_by_what_it_was_not_sent_and_has_not_acknowledged() {
    let (stream, port) = (Stream::new().await, Servers::find().port("nats"));
    let options = stream.options(port, LONG);
    post(options.clone()).deliver_until_ok(&events("e", 5)).await;
    let there = jetstream::new(stream.client.clone()).get_stream(&stream.name).await.expect("it is there");
    let pulls = pull::Config { durable_name: Some("billing".to_owned()), ..pull::Config::default() };
    let billing = there.create_consumer(pulls).await.expect("a consumer");
    let pushed = push::Config {
        durable_name: Some("mails".to_owned()),
        deliver_subject: stream.client.new_inbox(),
        ..push::Config::default()
    };
    let mails = there.create_consumer(pushed).await.expect("a consumer");
    there.create_consumer(pull::Config::default()).await.expect("one that nobody named");

    let mut reader = reader(options.clone());
    let lag = |name: &str, messages, members| ConsumerLag::new(&stream.name, name, Some(messages), members);
    let lags = reader.read().await.expect("the server answers");
    assert_eq!(lags, ConsumerLags::new(vec![lag("billing", 5, None), lag("mails", 5, Some(0))], ""));

    let mut some = billing.fetch().max_messages(3).messages().await.expect("messages");
    for number in 0..3 {
        let message = some.next().await.expect("a message").expect("it arrives");
        if number < 2 {
            message.ack_with(AckKind::Ack).await.expect("it is sent");
        }
    }
    let mut mailed = mails.messages().await.expect("messages");
    until(&mut *reader, "billing", |lag| lag.messages == Some(3)).await;
    let lags = until(&mut *reader, "mails", |lag| lag.members == Some(1)).await;
    assert_eq!(lags.consumers[1].messages, Some(5), "what was sent and not acknowledged is not finished");
    for _ in 0..5 {
        mailed.next().await.expect("a message").expect("it arrives").ack().await.expect("it is sent");
    }
    until(&mut *reader, "mails", |lag| lag.messages == Some(0)).await;

    let named = changed(options, |o| o.consumers = Some(LagOptions::default().names(["mails", "search"])));
    let lags = self::reader(named).read().await.expect("the server answers");
    assert_eq!(lags.consumers.iter().map(|lag| lag.messages).collect::<Vec<_>>(), [Some(0), None]);
    assert_eq!(lags.message, format!("stream {} has no consumer search", stream.name));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_stream_that_is_known_there_is_no_reader() {
    let stream = Stream::new().await;
    let options = stream.options(Servers::find().port("nats"), LONG);
    for options in [changed(options.clone(), |o| o.stream = None), changed(options, |o| o.consumers = None)] {
        assert!(nats(options).lag_reader().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_not_list_consumers_is_told_the_right_and_still_delivers() {
    let users = format!(
        "authorization {{ users: [
  {{ user: owner, password: \"{PASSWORD}\" }}
  {{ user: relay, password: \"{PASSWORD}\", permissions: {{ publish: {{ deny: \"$JS.API.CONSUMER.>\" }} }} }}
] }}"
    );
    let server = OwnServer::start(NatsWith::lines(users)).expect("a server");
    let owner = async_nats::ConnectOptions::with_user_and_password("owner".into(), PASSWORD.into());
    let port = server.site.port;
    let stream = Stream::seen_by(owner.connect(format!("nats://127.0.0.1:{port}")).await.expect("the right login"));
    stream.create(|_| {}).await;
    let options = changed(stream.options(port, LONG), |o| {
        o.urls = vec![SecretUrl::new(format!("nats://relay:{PASSWORD}@127.0.0.1:{port}"))];
    });
    let failure = reader(options.clone()).read().await.expect_err("it may not");
    assert_eq!(failure.code, "nats.permission", "{failure:?}");
    assert!(failure.error.contains("CONSUMER.LIST") && !failure.error.contains(PASSWORD), "{}", failure.error);
    post(options).deliver_until_ok(&events("e", 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_no_lag_but_a_failure_until_it_is_back() {
    let stream = Stream::new().await;
    let proxy = FaultProxy::to(Servers::find().port("nats")).await;
    let mut reader = reader(stream.options(proxy.port(), LONG));
    assert!(reader.read().await.is_ok());
    proxy.set(Mode::Refuse).await;
    assert_eq!(reader.read().await.expect_err("nobody answers").code, "nats.unreachable");
    proxy.set(Mode::Pass).await;
    assert!(reader.read().await.is_ok());
    proxy.until(|counts| counts.open() == 0).await;
}
