//! RabbitMQ against a bare lapin loop with as many confirms on their way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use postroom_core::envelope::Binding;
use postroom_core::{SecretUrl, Transport};
use postroom_rabbitmq::{RabbitMq, RabbitMqOptions};
use postroom_testbed::Servers;

use super::{encoder, payload, per_second, relayed, template, unique, warm};
use crate::rounds::Rounds;

const COUNT: usize = 60_000;
const KEYS: usize = 50_000;
const HOT: usize = 3_000;

pub(crate) async fn run(servers: &Servers) {
    let url = format!("amqp://guest:guest@127.0.0.1:{}", servers.site("rabbitmq").port);
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let name = unique("bench");
    declare(&channel, &name).await;
    let options = RabbitMqOptions::new(SecretUrl::new(&url), &name, template("bench"));
    let rabbitmq: Arc<dyn Transport> = Arc::new(RabbitMq::new("bench", options, encoder(Binding::Amqp)));
    warm(&rabbitmq).await;
    let (mut rounds, mut hot) = (Rounds::default(), Rounds::default());
    for _ in 0..super::ROUNDS {
        let bare = bare(&channel, &name).await;
        channel.queue_purge(name.as_str().into(), QueuePurgeOptions::default()).await.unwrap();
        let many = relayed(Arc::clone(&rabbitmq), COUNT, KEYS).await;
        rounds.add(many, bare);
        hot.add(relayed(Arc::clone(&rabbitmq), HOT, 1).await, many);
        channel.queue_purge(name.as_str().into(), QueuePurgeOptions::default()).await.unwrap();
    }
    rabbitmq.close().await;
    let (ratio, rates) = rounds.show();
    println!("transports, RabbitMQ: {ratio:.2} of a bare lapin loop ({rates}; target ≥ 0.7)");
    let (ratio, rates) = hot.show();
    println!("transports, RabbitMQ, one hot key: {ratio:.3} of many keys ({rates})");
}

async fn declare(channel: &Channel, name: &str) {
    let (durable, queue) = (
        ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() },
        QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() },
    );
    channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, FieldTable::default()).await.unwrap();
    channel.queue_declare(name.into(), queue, FieldTable::default()).await.unwrap();
    let bind = QueueBindOptions::default();
    channel.queue_bind(name.into(), name.into(), "#".into(), bind, FieldTable::default()).await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
}

/// Messages per second, persistent and mandatory, with a window of confirms.
async fn bare(channel: &Channel, exchange: &str) -> f64 {
    let (payload, mut confirms) = (payload(), VecDeque::with_capacity(super::WINDOW));
    let start = Instant::now();
    for n in 0..COUNT {
        let properties = BasicProperties::default().with_delivery_mode(2).with_message_id(format!("m-{n}").into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let publish = channel.basic_publish(exchange.into(), "bench".into(), options, payload.as_bytes(), properties);
        confirms.push_back(publish.await.unwrap());
        if confirms.len() >= super::WINDOW {
            confirms.pop_front().unwrap().await.unwrap();
        }
    }
    for confirm in confirms {
        confirm.await.unwrap();
    }
    per_second(COUNT, start.elapsed())
}
