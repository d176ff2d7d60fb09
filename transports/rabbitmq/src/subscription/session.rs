//! One connection that reads a queue, and what a message of it says.

use std::fmt::Display;

use bytes::Bytes;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{BasicProperties, Connection, ConnectionProperties, Consumer};
use postroom_consumer::Wire;
use postroom_core::Failure;
use tokio::time::timeout;

use super::RabbitMqSubscriptionOptions;
use crate::address::{Address, Login};
use crate::failures;

/// How often both sides show that they are there, in seconds.
const HEARTBEAT: u16 = 10;

/// An open connection with its consumer. Dropped, it is closed.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) consumer: Consumer,
}

impl Session {
    pub(super) async fn open(address: &Address, options: &RabbitMqSubscriptionOptions) -> Result<Self, Failure> {
        let connection = connect(address, options).await?;
        let consume = async {
            let channel = connection.create_channel().await?;
            channel.basic_qos(options.prefetch.max(1), BasicQosOptions::default()).await?;
            let queue = options.queue.as_str().into();
            channel.basic_consume(queue, "".into(), BasicConsumeOptions::default(), FieldTable::default()).await
        };
        match timeout(options.timeout, consume).await {
            Ok(Ok(consumer)) => Ok(Self { connection, consumer }),
            Ok(Err(error)) => {
                let what = format!("queue {} cannot be read: {error}", options.queue);
                Err(Failure::unavailable("rabbitmq.queue", what))
            }
            Err(_) => Err(failures::no_answer(address, options.timeout)),
        }
    }
}

/// Logs in.
pub(super) async fn connect(address: &Address, options: &RabbitMqSubscriptionOptions) -> Result<Connection, Failure> {
    let (user, password, mechanism) = match &address.login {
        Login::Password { user, password } => (user.clone(), password.expose().to_owned(), SASLMechanism::Plain),
        Login::Certificate => (String::new(), String::new(), SASLMechanism::External),
    };
    let uri = AMQPUri {
        scheme: if address.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: user, password },
            host: address.host.clone(),
            port: address.port,
        },
        vhost: address.vhost.clone(),
        query: AMQPQueryString {
            heartbeat: Some(HEARTBEAT),
            auth_mechanism: Some(mechanism),
            ..AMQPQueryString::default()
        },
    };
    let mut tls = OwnedTLSConfig::default();
    if address.tls {
        let pem = options.tls.pem().map_err(|error| failures::tls(address, &error))?;
        tls.cert_chain = pem.ca;
        if let (Some(cert), Some(key)) = (pem.cert, pem.key) {
            tls.identity = Some(OwnedIdentity::PKCS8 { pem: cert.into_bytes(), key: key.into_bytes() });
        }
    }
    let runtime = lapin::runtime::default_runtime().map_err(|error| lost(address, &error))?;
    let properties = ConnectionProperties::default().with_connection_name("postroom consumer".into());
    match timeout(options.timeout, Connection::connect_uri_with_config(uri, properties, tls, runtime)).await {
        Ok(connected) => connected.map_err(|error| lost(address, &error)),
        Err(_) => Err(failures::no_answer(address, options.timeout)),
    }
}

/// The broker is not there, or not any more.
pub(super) fn lost(address: &Address, error: &dyn Display) -> Failure {
    let what = format!("no connection to RabbitMQ at {}:{}: {error}", address.host, address.port);
    Failure::unavailable("rabbitmq.unreachable", what)
}

/// What a message says, and its body once more for a dead letter.
pub(super) fn wire(properties: &BasicProperties, data: Vec<u8>, redelivered: bool) -> (Wire, Bytes) {
    let body = Bytes::from(data);
    let table = properties.headers().as_ref().map(FieldTable::inner);
    let number = |name: &str| table.and_then(|table| table.get(name)).and_then(integer);
    // Quorum queues count; others only know whether it is the first time.
    let deliveries = number("x-delivery-count").map(|n| n + 1).or((!redelivered).then_some(1));
    let texts = table.into_iter().flatten();
    let wire = Wire {
        headers: texts.filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect(),
        body: body.clone(),
        content_type: properties.content_type().as_ref().map(ToString::to_string),
        id: properties.message_id().as_ref().map(ToString::to_string),
        event_type: properties.kind().as_ref().map(ToString::to_string),
        key: None,
        is_percent_encoded: false,
        deliveries,
    };
    (wire, body)
}

fn text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        other => integer(other).map(|number| number.to_string()),
    }
}

fn integer(value: &AMQPValue) -> Option<u64> {
    match value {
        AMQPValue::ShortShortInt(n) => u64::try_from(*n).ok(),
        AMQPValue::ShortInt(n) => u64::try_from(*n).ok(),
        AMQPValue::LongInt(n) => u64::try_from(*n).ok(),
        AMQPValue::LongLongInt(n) => u64::try_from(*n).ok(),
        AMQPValue::ShortShortUInt(n) => Some(u64::from(*n)),
        AMQPValue::ShortUInt(n) => Some(u64::from(*n)),
        AMQPValue::LongUInt(n) => Some(u64::from(*n)),
        _ => None,
    }
}
