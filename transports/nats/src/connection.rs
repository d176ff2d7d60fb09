//! One connection: opened once, with the stream looked up; messages out, answers in, one end.
//!
//! Knows nothing of deliveries: who waits for which answer, and what an end means, is [`crate::deliver`]'s business.

use std::time::Duration;

use async_nats::jetstream::context::{ContextBuilder, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, Info, StorageType};
use async_nats::jetstream::{Context, ErrorCode, consumer};
use async_nats::{Client, Event, PublishErrorKind, ServerAddr, ServerInfo, Subscriber};
use futures_util::{FutureExt, StreamExt, TryStreamExt as _};
use postroom_core::{Failure, SecretUrl};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::credentials::{self, Once};
use crate::failures;
use crate::message::Message;
use crate::options::{CreateStream, NatsOptions};

/// Most messages that wait for their acknowledgement. What the client holds back for us, and what it keeps of answers
/// until we look, has room for that many: it throws answers away when it has not.
pub(crate) const IN_FLIGHT_MAX: usize = 8192;
/// What a marker says, to people who listen to everything.
const MARKER: &str = "postroom";
/// Most consumers of a stream that are looked through; they come in pages.
const CONSUMERS_READ_MAX: usize = 1000;

/// An open connection. When dropped, it ends and does not come back.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    jetstream: Context,
    /// Acknowledgements of JetStream. With core NATS it is full for good, see [`Connection::mark`].
    answers: Subscriber,
    acknowledged: bool,
    events: mpsc::UnboundedReceiver<Event>,
    /// Answers go to this with a number behind it.
    inbox: String,
    /// The server, for people.
    pub(crate) server: String,
}

/// Event of a connection.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// Answer to the message of this number.
    Answer(u64, async_nats::Message),
    /// The server has handled everything that was sent before the last marker, and refused none of it.
    Marked,
    /// The connection ended.
    Over(Failure),
}

/// What became of a message handed to [`Connection::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is on its way.
    OnItsWay,
    /// It is larger than this server takes; nothing was sent.
    TooLarge,
    /// The connection is over, as [`Connection::next`] will say.
    Lost,
}

impl Connection {
    /// Connects to the first server that lets us in. Nothing is looked up yet.
    pub(crate) async fn open(options: &NatsOptions, name: &str) -> Result<Self, Failure> {
        let mut last = failures::unreachable("nats", &"no URL is given");
        // All of them together have the time of one delivery.
        let share = options.timeout / u32::try_from(options.urls.len().max(1)).unwrap_or(u32::MAX);
        for url in &options.urls {
            match Self::to(url, options, name, share).await {
                Err(failure) if failure.code == "nats.unreachable" => last = failure,
                other => return other,
            }
        }
        Err(last)
    }

    async fn to(url: &SecretUrl, options: &NatsOptions, name: &str, limit: Duration) -> Result<Self, Failure> {
        let server = url.to_string();
        let unfit = |_| failures::unreachable(&server, &"that is no URL of a NATS server");
        let mut address: ServerAddr = url.expose().parse().map_err(unfit)?;
        let once = Once::default();
        let connect = credentials::options(&options.login, &address, &once).await?;
        if address.has_user_pass() {
            // The client writes addresses into its log.
            let mut bare = address.into_inner();
            let _ = (bare.set_username(""), bare.set_password(None));
            address = ServerAddr::from_url(bare).map_err(unfit)?;
        }
        let (told, events) = mpsc::unbounded_channel();
        let mut connect = connect
            .name(name)
            .max_reconnects(1)
            .ignore_discovered_servers()
            .connection_timeout(limit)
            // A dropped client that is stuck in a write sees only by its pings that it is.
            .ping_interval(options.timeout)
            .client_capacity(IN_FLIGHT_MAX)
            .subscription_capacity(if options.jetstream { IN_FLIGHT_MAX + 1 } else { 1 })
            .event_callback(move |event| {
                // Nobody listens any more: the connection was dropped.
                let _ = told.send(event);
                async {}
            });
        if let Some(files) = &options.tls {
            let client = files.client().map_err(|error| failures::tls(&server, &error))?;
            connect = connect.require_tls(true).tls_client_config(client);
        }
        let connected = timeout(limit, connect.connect(address)).await;
        let connected = connected.map_err(|_| failures::unreachable(&server, &"no answer"))?;
        let client = connected.map_err(|error| failures::connect(&error, &server))?;
        once.used();
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await.map_err(|_| failures::disconnected(&server))?;
        let jetstream = ContextBuilder::new().timeout(options.timeout).build(client.clone());
        let connection = Self { client, jetstream, answers, acknowledged: options.jetstream, events, inbox, server };
        if !connection.acknowledged {
            // Fills the subscription; from now on every marker overflows it.
            connection.mark().await;
        }
        Ok(connection)
    }

    /// What the server says of itself.
    pub(crate) fn info(&self) -> ServerInfo {
        self.client.server_info()
    }

    /// Largest message with headers that the server takes.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.client.max_payload()
    }

    /// Looks the stream up; makes it when it is not there and `create` says how.
    pub(crate) async fn stream(&mut self, stream: &str, create: Option<&CreateStream>) -> Result<Info, Failure> {
        let Self { jetstream, events, server, .. } = self;
        let found = async {
            match jetstream.get_stream(stream).await {
                Ok(found) => Ok(found.cached_info().clone()),
                Err(error) => match (error.kind(), create) {
                    (GetStreamErrorKind::JetStream(said), Some(create))
                        if said.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                    {
                        make(jetstream, server, stream, create).await
                    }
                    _ => Err(failures::look_up(&error, server, stream)),
                },
            }
        };
        tokio::select! {
            found = found => found,
            // A missing permission is no answer to the question, it is said beside it.
            failure = over(events, server) => Err(failure),
        }
    }

    /// Lists the consumers of a stream, up to [`CONSUMERS_READ_MAX`].
    pub(crate) async fn consumers(&mut self, stream: &str) -> Result<Vec<consumer::Info>, Failure> {
        let Self { jetstream, events, server, .. } = self;
        let found = async {
            let stream =
                jetstream.get_stream_no_info(stream).await.map_err(|error| failures::consumers(&error, server))?;
            let listed = stream.consumers().take(CONSUMERS_READ_MAX).try_collect().await;
            listed.map_err(|error| failures::consumers(&error, server))
        };
        tokio::select! {
            found = found => found,
            failure = over(events, server) => Err(failure),
        }
    }

    /// Hands a message to the client, and waits while that has no room for it.
    pub(crate) async fn send(&self, number: u64, message: Message) -> Sent {
        let Message { subject, headers, body } = message;
        let reply = format!("{}.{number}", self.inbox);
        match self.client.publish_with_reply_and_headers(subject, reply, headers, body).await {
            Ok(()) => Sent::OnItsWay,
            Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => Sent::TooLarge,
            Err(_) => Sent::Lost,
        }
    }

    /// Hands a message to the client that nobody acknowledges.
    pub(crate) async fn send_unacknowledged(&self, message: Message) -> Sent {
        let Message { subject, headers, body } = message;
        match self.client.publish_with_headers(subject, headers, body).await {
            Ok(()) => Sent::OnItsWay,
            Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => Sent::TooLarge,
            Err(_) => Sent::Lost,
        }
    }

    /// Sends a marker to ourselves. A server handles what comes over one connection in order: when the marker is back, it has
    /// taken everything before it.
    ///
    /// What the server refused it says beside the messages, in an event of the client, and nothing orders events and
    /// messages of the client. So markers go to a subscription that has room for one message and is never read: the client
    /// tells of each further one by an event, behind those of all refusals that came before.
    pub(crate) async fn mark(&self) {
        // A connection that is lost says so by itself.
        let _ = self.client.publish(format!("{}.0", self.inbox), MARKER.into()).await;
    }

    /// The next answer, or the end; answers that came before the end come first. May be cancelled and called again.
    pub(crate) async fn next(&mut self) -> ConnectionEvent {
        loop {
            tokio::select! {
                biased;
                answer = self.answers.next(), if self.acknowledged => match answer {
                    Some(answer) => if let Some(said) = self.numbered(answer) { return said },
                    None => return ConnectionEvent::Over(failures::disconnected(&self.server)),
                },
                event = self.events.recv() => match event {
                    Some(Event::SlowConsumer(_)) if !self.acknowledged => return ConnectionEvent::Marked,
                    Some(event) => if let Some(failure) = failures::ending(&event, &self.server) {
                        return ConnectionEvent::Over(failure);
                    },
                    None => return ConnectionEvent::Over(failures::disconnected(&self.server)),
                },
            }
        }
    }

    /// The next answer, if one is there already.
    pub(crate) fn next_at_hand(&mut self) -> Option<ConnectionEvent> {
        if !self.acknowledged {
            return None;
        }
        let answer = self.answers.next().now_or_never()??;
        self.numbered(answer)
    }

    fn numbered(&self, answer: async_nats::Message) -> Option<ConnectionEvent> {
        let number = answer.subject.strip_prefix(self.inbox.as_str())?.strip_prefix('.')?.parse().ok()?;
        Some(ConnectionEvent::Answer(number, answer))
    }
}

async fn over(events: &mut mpsc::UnboundedReceiver<Event>, server: &str) -> Failure {
    while let Some(event) = events.recv().await {
        if let Some(failure) = failures::ending(&event, server) {
            return failure;
        }
    }
    failures::disconnected(server)
}

async fn make(jetstream: &Context, server: &str, stream: &str, create: &CreateStream) -> Result<Info, Failure> {
    let config = Config {
        name: stream.to_owned(),
        subjects: create.subjects.clone(),
        num_replicas: create.replicas,
        max_age: create.max_age.unwrap_or_default(),
        duplicate_window: create.duplicate_window.unwrap_or_default(),
        storage: StorageType::File,
        ..Config::default()
    };
    match jetstream.create_stream(config).await {
        Ok(made) => {
            tracing::info!(target: crate::LOG, stream, server, "stream created");
            Ok(made.cached_info().clone())
        }
        // Another relay may have been quicker, and somebody else with other settings: what is there is not changed.
        Err(refused) => match jetstream.get_stream(stream).await {
            Ok(found) => Ok(found.cached_info().clone()),
            Err(_) => Err(failures::create(&refused, server, stream)),
        },
    }
}
