//! A connection that comes back by itself for a while, and the durable consumer on it.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ClientError, Event, ServerAddr};
use postroom_core::Failure;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{NatsSubscriptionOptions, complain};
use crate::credentials::{self, Once};
use crate::failures;

/// How often the client tries to come back by itself: about a second, where servers refuse. After that the login is read
/// anew, and whatever is wrong is said.
const RECONNECTS: usize = 10;

/// What is read through.
pub(super) struct Session {
    pub(super) jetstream: Context,
    pub(super) consumer: PullConsumer,
    /// The client has given up.
    pub(super) over: CancellationToken,
    /// How long the server really waits for a sign of life.
    pub(super) ack_wait: Duration,
}

impl Session {
    pub(super) async fn open(options: &NatsSubscriptionOptions, connected: &Arc<Notify>) -> Result<Self, Failure> {
        let over = CancellationToken::new();
        let client = connect(options, connected, &over).await?;
        let jetstream = ContextBuilder::new().timeout(options.timeout).build(client);
        let stream = jetstream.get_stream(&options.stream).await;
        let stream = stream.map_err(|error| failures::look_up(&error, "NATS", &options.stream))?;
        let config = pull::Config {
            durable_name: Some(options.durable.clone()),
            filter_subject: options.filter.clone().unwrap_or_default(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: options.ack_wait,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(&options.durable, config).await;
        let consumer: PullConsumer = consumer.map_err(|error| unread(options, &error))?;
        let config = &consumer.cached_info().config;
        if config.ack_policy != AckPolicy::Explicit {
            return Err(unread(options, &"it does not wait for explicit acknowledgements"));
        }
        let mut read: Vec<&str> = config.filter_subjects.iter().map(String::as_str).collect();
        read.extend(Some(&*config.filter_subject).filter(|filter| !filter.is_empty()));
        if read.is_empty() {
            read.extend(stream.cached_info().config.subjects.iter().map(String::as_str));
        }
        if let Some(filter) = read.into_iter().find(|filter| matches(filter, &options.dead_subject)) {
            let dead = &options.dead_subject;
            let error = format!("its own dead letters, {dead}, would come to it as {filter}; choose another subject");
            return Err(unread(options, &error));
        }
        let ack_wait = config.ack_wait;
        Ok(Self { jetstream, consumer, over, ack_wait })
    }
}

async fn connect(
    options: &NatsSubscriptionOptions,
    connected: &Arc<Notify>,
    over: &CancellationToken,
) -> Result<Client, Failure> {
    let servers = options.urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let unfit = || failures::unreachable(&servers, &"that is no URL of a NATS server");
    let mut bare = Vec::new();
    let mut login = None;
    for url in &options.urls {
        let address: ServerAddr = url.expose().parse().map_err(|_| unfit())?;
        if login.is_none() {
            // Unlike the one of a transport, this connection may come back by itself: what it sends again does no harm.
            login = Some(credentials::options(&options.login, &address, &Once::default()).await?);
        }
        let mut url = address.into_inner();
        // The client writes addresses into its log.
        let _ = (url.set_username(""), url.set_password(None));
        bare.push(ServerAddr::from_url(url).map_err(|_| unfit())?);
    }
    let (connected, over) = (Arc::clone(connected), over.clone());
    let (told, lost) = (options.clone(), failures::disconnected(&servers));
    let mut connect = login
        .ok_or_else(unfit)?
        .name(&options.durable)
        .connection_timeout(options.timeout)
        .ping_interval(options.timeout)
        .max_reconnects(RECONNECTS.max(bare.len()))
        .event_callback(move |event| {
            match event {
                Event::Connected => connected.notify_waiters(),
                Event::Disconnected => complain(&told, &lost),
                Event::ClientError(ClientError::MaxReconnects) => over.cancel(),
                _ => {}
            }
            async {}
        });
    if let Some(files) = &options.tls {
        let client = files.client().map_err(|error| failures::tls(&servers, &error))?;
        connect = connect.require_tls(true).tls_client_config(client);
    }
    let client = timeout(options.timeout, connect.connect(bare)).await;
    let client = client.map_err(|_| failures::unreachable(&servers, &"no answer"))?;
    client.map_err(|error| failures::connect(&error, &servers))
}

pub(super) fn unread(options: &NatsSubscriptionOptions, error: &dyn Display) -> Failure {
    let what = format!("consumer {} of stream {} cannot be read: {error}", options.durable, options.stream);
    Failure::unavailable("nats.consumer", what)
}

/// Whether a subject with wildcards takes this one.
fn matches(pattern: &str, subject: &str) -> bool {
    let mut parts = subject.split('.');
    for wanted in pattern.split('.') {
        match (wanted, parts.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_one_part_or_for_the_rest() {
        for (pattern, subject, is_so) in [
            ("orders.>", "orders.dead", true),
            ("orders.>", "orders", false),
            ("orders.*", "orders.dead", true),
            ("orders.*", "orders.a.dead", false),
            ("*.dead", "orders.dead", true),
            ("orders.dead", "orders.dead", true),
            ("orders", "orders.dead", false),
            (">", "x", true),
        ] {
            assert_eq!(matches(pattern, subject), is_so, "{pattern} {subject}");
        }
    }
}
