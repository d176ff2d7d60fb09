//! An exchange and a queue of one test's own, and somebody else's client that looks into them.

use std::sync::{Arc, Mutex};

use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ConnectionProperties, ExchangeKind};
use postroom_conformance::transports::{Arrived, PATIENCE, Post};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Failure, JSON, Outcome, SecretUrl, Template};
use postroom_rabbitmq::{RabbitMq, RabbitMqOptions};
use postroom_testbed::brokers::{PASSWORD, USER};
use postroom_testbed::{FaultProxy, Servers, unique_name};

/// A topic exchange with one queue that takes everything but what begins with `nowhere`; both go when nobody has used
/// them for a while.
pub(crate) struct Place {
    pub(crate) port: u16,
    pub(crate) name: String,
    pub(crate) channel: Channel,
    _connection: lapin::Connection,
    arrived: Mutex<Vec<Arrived>>,
}

impl Place {
    /// On the shared broker.
    pub(crate) async fn shared() -> Self {
        Self::at(Servers::find().port("rabbitmq")).await
    }

    pub(crate) async fn at(port: u16) -> Self {
        Self::with(port, &[]).await
    }

    /// With these arguments of the queue.
    pub(crate) async fn with(port: u16, arguments: &[(&str, AMQPValue)]) -> Self {
        let place = Self::bare(port).await;
        place.exchange(ExchangeKind::Topic).await;
        place.queue(arguments).await;
        place.bind("parcel.#").await;
        place.bind("größe.#").await;
        place
    }

    /// Only the name.
    pub(crate) async fn bare(port: u16) -> Self {
        let connection = connection(port).await;
        let channel = connection.create_channel().await.unwrap();
        Self { port, name: unique_name("parcels"), channel, _connection: connection, arrived: Mutex::default() }
    }

    pub(crate) async fn exchange(&self, kind: ExchangeKind) {
        let options = ExchangeDeclareOptions { durable: true, auto_delete: true, ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(self.name.clone().into(), kind, options, FieldTable::default()).await.unwrap();
    }

    pub(crate) async fn queue(&self, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        table.insert("x-expires".into(), AMQPValue::LongInt(300_000));
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(self.name.clone().into(), options, table).await.unwrap();
    }

    pub(crate) async fn bind(&self, key: &str) {
        let name = self.name.clone();
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        self.channel.queue_bind(name.clone().into(), name.into(), key.into(), options, none).await.unwrap();
    }

    pub(crate) async fn delete_exchange(&self) {
        self.channel.exchange_delete(self.name.clone().into(), ExchangeDeleteOptions::default()).await.unwrap();
    }

    /// Takes the next message out of a queue.
    pub(crate) async fn get(&self, queue: &str) -> Option<lapin::message::Delivery> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await.unwrap().map(|message| message.delivery)
    }

    /// Everything that has come into the queue so far, in order.
    pub(crate) async fn arrived(&self) -> Vec<Arrived> {
        while let Some(message) = self.get(&self.name).await {
            let properties = &message.properties;
            let arrived = Arrived {
                id: properties.message_id().as_ref().unwrap().to_string(),
                event_type: properties.kind().as_ref().unwrap().to_string(),
                payload: String::from_utf8(message.data).unwrap(),
            };
            self.arrived.lock().unwrap().push(arrived);
        }
        self.arrived.lock().unwrap().clone()
    }

    pub(crate) async fn arrived_ids(&self) -> Vec<String> {
        self.arrived().await.into_iter().map(|a| a.id).collect()
    }

    /// Options for this exchange, through this port.
    pub(crate) fn options(&self, port: u16) -> RabbitMqOptions {
        options(&url(port), &self.name)
    }

    pub(crate) fn post(&self) -> Post {
        post(self.options(self.port))
    }
}

/// The same behind a proxy.
pub(crate) struct Proxied {
    pub(crate) place: Place,
    pub(crate) proxy: FaultProxy,
}

impl Proxied {
    pub(crate) async fn shared() -> Self {
        let place = Place::shared().await;
        let proxy = FaultProxy::to(place.port).await;
        Self { place, proxy }
    }

    pub(crate) fn options(&self) -> RabbitMqOptions {
        self.place.options(self.proxy.port())
    }
}

pub(crate) async fn connection(port: u16) -> lapin::Connection {
    lapin::Connection::connect(&url(port), ConnectionProperties::default()).await.unwrap()
}

pub(crate) fn url(port: u16) -> String {
    format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/%2f")
}

pub(crate) fn options(url: &str, exchange: &str) -> RabbitMqOptions {
    RabbitMqOptions::new(SecretUrl::new(url), exchange, Template::parse("{type}", &[]).unwrap())
}

pub(crate) fn transport(options: RabbitMqOptions) -> RabbitMq {
    RabbitMq::new("parcels", options, Encoder::new(Format::CloudEventsBinary, Binding::Amqp, "/postroom/test"))
}

pub(crate) fn post(options: RabbitMqOptions) -> Post {
    Post::new(Arc::new(transport(options)))
}

pub(crate) fn event(id: impl Into<String>) -> Event {
    Event::new("parcel.sent").id(id).bytes(JSON, r#"{"secret":"canary-payload"}"#)
}

/// One that no queue of a [`Place`] takes.
pub(crate) fn lost_event(id: impl Into<String>) -> Event {
    Event::new("nowhere.sent").id(id).bytes(JSON, r#"{"secret":"canary-payload"}"#)
}

pub(crate) fn events(count: usize) -> Vec<Event> {
    (0..count).map(|n| event(format!("e-{n}"))).collect()
}

/// Delivers one event, which must fail.
pub(crate) async fn failure(post: &mut Post, event: Event) -> Failure {
    post.deliver(&[event]).await;
    post.outcome().await.1.expect_err("it fails")
}

/// Delivers an event again and again until the outcome is like this.
pub(crate) async fn deliver_until(post: &mut Post, event: Event, is_so: impl Fn(&Outcome) -> bool) {
    let trying = async {
        loop {
            post.deliver(std::slice::from_ref(&event)).await;
            if is_so(&post.outcome().await.1) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, trying).await.expect("it comes to be so");
}
