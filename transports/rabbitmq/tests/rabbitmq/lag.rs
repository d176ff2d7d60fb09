//! Messages and consumers of queues, as they are read beside a route.

use lapin::BasicProperties;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions};
use lapin::types::FieldTable;
use postroom_conformance::changed;
use postroom_core::{ConsumerLag, ConsumerLags, LagOptions, LagReader, Template, Transport as _};
use postroom_rabbitmq::{Binding, Exchange, ExchangeKind, Mode, Queue, QueueKind, RabbitMqOptions, Topology};
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD};
use postroom_testbed::proxy::Mode as Fault;

use crate::rabbitmq::place::{Place, Proxied, events, options, transport, url};

fn reader(options: RabbitMqOptions) -> Box<dyn LagReader> {
    transport(options).lag_reader().expect("a reader")
}

/// A topology of this queue, bound to this exchange.
fn topology(exchange: &str, queue: &str) -> Topology {
    let bindings = vec![Binding { exchange: exchange.to_owned(), routing_key: "#".to_owned() }];
    let queue = Queue { name: queue.to_owned(), kind: QueueKind::Classic, bindings, dlq: true, max_length: None };
    let exchange = Exchange { name: exchange.to_owned(), kind: ExchangeKind::Topic };
    Topology { mode: Mode::Check, exchanges: vec![exchange], queues: vec![queue] }
}

/// What is read when it is so.
async fn until(reader: &mut dyn LagReader, so: impl Fn(&ConsumerLag) -> bool) -> ConsumerLags {
    loop {
        let lags = reader.read().await.expect("the broker answers");
        if lags.consumers.iter().all(&so) {
            return lags;
        }
    }
}

#[tokio::test]
async fn a_queue_that_the_topology_binds_shows_what_waits_in_it_and_who_reads_it() {
    let to = Proxied::shared().await;
    let Place { name, channel, .. } = &to.place;
    let mut reader = reader(changed(to.options(), |o| o.topology = Some(topology(name, name))));
    let lag =
        |messages, members| ConsumerLags::new(vec![ConsumerLag::new(name, name, Some(messages), Some(members))], "");
    assert_eq!(reader.read().await.unwrap(), lag(0, 0));
    to.place.post().deliver_until_ok(&events(4)).await;
    assert_eq!(until(&mut *reader, |lag| lag.messages == Some(4)).await, lag(4, 0));
    while to.place.get(name).await.is_some() {}
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(name.clone().into(), "c".into(), options, none).await.unwrap();
    assert_eq!(until(&mut *reader, |lag| lag.members == Some(1)).await, lag(0, 1));
    drop(consumer);
    to.proxy.until(|counts| counts.open() == 0).await;
}

#[tokio::test]
async fn queues_that_are_named_are_read_too_and_one_that_is_missing_is_unknown() {
    let place = Place::shared().await;
    let missing = format!("{}-missing", place.name);
    let body = BasicPublishOptions::default();
    place
        .channel
        .basic_publish("".into(), place.name.clone().into(), body, b"x", BasicProperties::default())
        .await
        .unwrap();
    // By the default exchange the routing key is the queue.
    let mut reader = reader(changed(options(&url(place.port), ""), |o| {
        o.routing_key = Template::parse(&place.name, &[]).unwrap();
        o.consumers = Some(LagOptions::default().names([missing.clone()]));
    }));
    let lags = until(&mut *reader, |lag| lag.messages != Some(0)).await;
    let expected = [
        ConsumerLag::new("(default)", &place.name, Some(1), Some(0)),
        ConsumerLag::new("(default)", &missing, None, None),
    ];
    assert_eq!(lags, ConsumerLags::new(expected.into(), format!("queue {missing} does not exist")));
}

#[tokio::test]
async fn without_a_queue_that_is_known_there_is_no_reader() {
    let place = Place::shared().await;
    let elsewhere = Some(topology("elsewhere", "mails"));
    let unwanted = Some(topology(&place.name, "mails"));
    for options in [
        place.options(place.port),
        changed(place.options(place.port), |o| o.topology = elsewhere),
        changed(place.options(place.port), |o| (o.topology, o.consumers) = (unwanted, None)),
    ] {
        assert!(transport(options).lag_reader().is_none());
    }
}

#[tokio::test]
async fn a_user_without_any_right_sees_how_full_queues_are_because_the_broker_asks_for_none() {
    let place = Place::shared().await;
    let limited = format!("amqp://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}/%2f", place.port);
    let mut reader =
        reader(changed(options(&limited, &place.name), |o| o.topology = Some(topology(&place.name, &place.name))));
    let lags = reader.read().await.unwrap();
    assert_eq!((lags.consumers[0].messages, lags.message.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_broker_that_is_down_is_no_lag_but_a_failure_until_it_is_back() {
    let to = Proxied::shared().await;
    let mut reader = reader(changed(to.options(), |o| o.topology = Some(topology(&to.place.name, &to.place.name))));
    assert!(reader.read().await.is_ok());
    to.proxy.set(Fault::Refuse).await;
    assert_eq!(reader.read().await.unwrap_err().code, "rabbitmq.unreachable");
    to.proxy.set(Fault::Pass).await;
    assert!(reader.read().await.is_ok());
}
