//! Exchanges and queues that are made, or only looked for.

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicRejectOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind as Kind};
use postroom_conformance::changed;
use postroom_core::{Failure, FailureKind};
use postroom_rabbitmq::{Binding, Exchange, ExchangeKind, Mode, Queue, QueueKind, RabbitMqOptions, Topology};
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD};
use postroom_testbed::{Servers, unique_name};

use crate::rabbitmq::place::{Place, connection, event, failure, options, post, url};

/// A topology with names of its own, which is gone when the test is over and has not failed.
struct Plan {
    port: u16,
    exchange: String,
    topology: Topology,
    connection: lapin::Connection,
    channel: Channel,
}

impl Plan {
    /// One queue for everything.
    async fn new(mode: Mode, kind: QueueKind) -> Self {
        let port = Servers::find().port("rabbitmq");
        let exchange = unique_name("shop.events");
        let binding = Binding { exchange: exchange.clone(), routing_key: "parcel.*".to_owned() };
        let name = unique_name("mails");
        let queue = Queue { name, kind, bindings: vec![binding], dlq: true, max_length: None };
        let exchanges = vec![Exchange { name: exchange.clone(), kind: ExchangeKind::Topic }];
        let topology = Topology { mode, exchanges, queues: vec![queue] };
        let connection = connection(port).await;
        let channel = connection.create_channel().await.unwrap();
        Self { port, exchange, topology, connection, channel }
    }

    fn queue(&self) -> &Queue {
        &self.topology.queues[0]
    }

    fn options(&self) -> RabbitMqOptions {
        changed(options(&url(self.port), &self.exchange), |o| o.topology = Some(self.topology.clone()))
    }

    /// Whether an exchange is there. Who asks for one that is not loses his channel.
    async fn has_exchange(&self, name: &str) -> bool {
        let channel = self.connection.create_channel().await.unwrap();
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(name.into(), Kind::Topic, options, FieldTable::default()).await.is_ok()
    }

    async fn has_queue(&self, name: &str) -> bool {
        let channel = self.connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name.into(), options, FieldTable::default()).await.is_ok()
    }

    async fn tidy(&self) {
        for queue in [self.queue().name.clone(), self.queue().dead_letter_queue()] {
            self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        }
        for exchange in [self.exchange.clone(), self.queue().dead_letter_exchange()] {
            self.channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_a_consumer_rejects_is_moved_to_the_dead_letter_queue() {
    for kind in [QueueKind::Quorum, QueueKind::Classic] {
        let plan = Plan::new(Mode::Declare, kind).await;
        let mut post = post(plan.options());
        post.deliver_until_ok(&[event("poison"), event("good")]).await;
        post.close().await;
        for _ in 0..2 {
            let taken = take(&plan.channel, &plan.queue().name).await;
            if taken.properties.message_id().as_ref().unwrap().as_str() == "poison" {
                taken.reject(BasicRejectOptions { requeue: false }).await.unwrap();
            } else {
                taken.ack(BasicAckOptions::default()).await.unwrap();
            }
        }
        let dead = take(&plan.channel, &plan.queue().dead_letter_queue()).await;
        assert_eq!(dead.properties.message_id().as_ref().unwrap().as_str(), "poison", "{kind:?}");
        assert_eq!(dead.exchange.as_str(), plan.queue().dead_letter_exchange());
        plan.tidy().await;
    }
}

/// The next message, as soon as there is one.
async fn take(channel: &Channel, queue: &str) -> lapin::message::Delivery {
    loop {
        if let Some(message) = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap() {
            return message.delivery;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_exists_is_left_as_it_is_and_what_is_missing_is_made() {
    let plan = Plan::new(Mode::Declare, QueueKind::Quorum).await;
    // Another kind of exchange, another kind of queue: the team had them before.
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    plan.channel
        .exchange_declare(plan.exchange.clone().into(), Kind::Fanout, durable, FieldTable::default())
        .await
        .unwrap();
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    plan.channel.queue_declare(plan.queue().name.clone().into(), durable, FieldTable::default()).await.unwrap();
    for round in 0..2 {
        let mut post = post(plan.options());
        post.deliver_until_ok(&[event(format!("e-{round}"))]).await;
        post.close().await;
        assert_eq!(
            plan.channel
                .queue_declare(plan.queue().name.clone().into(), durable, FieldTable::default())
                .await
                .unwrap()
                .message_count(),
            round + 1,
            "the queue was bound once, to an exchange of another kind"
        );
    }
    assert!(plan.has_queue(&plan.queue().dead_letter_queue()).await);
    assert!(plan.has_exchange(&plan.queue().dead_letter_exchange()).await);
    plan.tidy().await;
}

#[tokio::test]
async fn a_topology_that_is_only_checked_is_unavailable_until_somebody_has_made_it() {
    let plan = Plan::new(Mode::Check, QueueKind::Classic).await;
    let mut waiting = post(plan.options());
    let missing = |failure: Failure, what: String| {
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.topology"));
        assert!(failure.error.starts_with(&format!("{what} is missing")), "{}", failure.error);
    };
    missing(failure(&mut waiting, event("a")).await, format!("topic exchange {}", plan.exchange));
    assert!(!plan.has_exchange(&plan.exchange).await && !plan.has_queue(&plan.queue().name).await, "it made something");
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    for (name, kind) in [(plan.exchange.clone(), Kind::Topic), (plan.queue().dead_letter_exchange(), Kind::Direct)] {
        plan.channel.exchange_declare(name.into(), kind, durable, FieldTable::default()).await.unwrap();
    }
    missing(failure(&mut waiting, event("a")).await, format!("queue {}", plan.queue().dead_letter_queue()));
    let mut made = plan.options();
    made.topology.as_mut().unwrap().mode = Mode::Declare;
    let mut declaring = post(made);
    declaring.deliver_until_ok(&[event("b")]).await;
    declaring.close().await;
    waiting.deliver_until_ok(&[event("a")]).await;
    waiting.close().await;
    plan.tidy().await;
}

#[tokio::test]
async fn a_queue_with_a_limit_refuses_what_is_over_it_instead_of_dropping_what_is_in_it() {
    let mut plan = Plan::new(Mode::Declare, QueueKind::Classic).await;
    plan.topology.queues[0].max_length = Some(3);
    let mut post = post(plan.options());
    post.deliver_until_ok(&[event("1"), event("2"), event("3")]).await;
    let refused = failure(&mut post, event("4")).await;
    assert_eq!((refused.kind, &*refused.code), (FailureKind::Transient, "rabbitmq.nack"));
    let first = take(&plan.channel, &plan.queue().name).await;
    assert_eq!(first.properties.message_id().as_ref().unwrap().as_str(), "1", "the oldest was dropped");
    post.close().await;
    plan.tidy().await;
}

#[tokio::test]
async fn who_may_not_make_it_is_told_what_and_nothing_dies() {
    let plan = Plan::new(Mode::Declare, QueueKind::Classic).await;
    let url = format!("amqp://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}/%2f", plan.port);
    let mut post = post(changed(options(&url, &plan.exchange), |o| o.topology = Some(plan.topology.clone())));
    let failure = failure(&mut post, event("a")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.denied"));
    let expected = format!("topic exchange {} cannot be made: ACCESS_REFUSED", plan.exchange);
    assert!(failure.error.starts_with(&expected), "{}", failure.error);
    post.close().await;
}

#[tokio::test]
async fn a_binding_to_an_exchange_that_nobody_made_is_named() {
    let place = Place::shared().await;
    let queue = Queue {
        name: place.name.clone(),
        kind: QueueKind::Classic,
        bindings: vec![Binding { exchange: "no.such.exchange".to_owned(), routing_key: "#".to_owned() }],
        dlq: false,
        max_length: None,
    };
    let topology = Topology { queues: vec![queue], ..Topology::default() };
    let mut post = post(changed(place.options(place.port), |o| o.topology = Some(topology)));
    let failure = failure(&mut post, event("a")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.topology"));
    assert!(failure.error.contains("exchange no.such.exchange") && failure.error.contains(&place.name), "{failure:?}");
    post.close().await;
}
