//! From nothing to a channel in confirm mode.

use std::time::Duration;

use bytes::BytesMut;
use postroom_core::{Failure, Secret};
use tokio::time::{Instant, timeout_at};

use super::stream::Stream;
use super::{Connection, Ending, Heartbeat};
use crate::address::{Address, Login};
use crate::failures;
use crate::options::RabbitMqOptions;
use crate::wire::GREETING;
use crate::wire::decode::ServerMethod;
use crate::wire::encode::{self, Value};

/// What we agree upon when the broker sets no limit, and what its first words may have at most.
const FRAME_MAX: u32 = 128 * 1024;

impl Connection {
    /// Connects, logs in and opens a channel, within the time-out. Confirms come later ([`Connection::confirm`]).
    pub(crate) async fn open(route: &str, options: &RabbitMqOptions, address: &Address) -> Result<Self, Failure> {
        let until = Instant::now() + options.timeout;
        let Ok(stream) = timeout_at(until, Stream::connect(address, &options.tls)).await else {
            return Err(failures::no_answer(address, options.timeout));
        };
        let (read, write) = tokio::io::split(stream?);
        let mut connection = Self {
            read,
            write,
            input: BytesMut::new(),
            output: BytesMut::from(GREETING),
            flushed: true,
            frame_max: FRAME_MAX as usize,
            // Until they have agreed, nobody shows that he is there; the time-out is enough.
            heartbeat: Heartbeat::new(options.timeout * 4),
            coming_back: None,
        };
        match timeout_at(until, connection.greet(route, options, address)).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(Refused::Failed(failure))) => Err(failure),
            Ok(Err(Refused::Ended(at, ending))) => {
                let failure = at.failure(address, &ending);
                connection.end(&ending, options.timeout.min(Duration::from_secs(1))).await;
                Err(failure)
            }
            Err(_) => Err(failures::no_answer(address, options.timeout)),
        }
    }

    /// From now on every message is confirmed.
    pub(crate) async fn confirm(&mut self) -> Result<(), Ending> {
        encode::confirm_select(&mut self.output);
        self.done().await
    }

    /// Opens the channel, again after the broker has closed it.
    pub(crate) async fn open_channel(&mut self) -> Result<(), Ending> {
        encode::channel_open(&mut self.output);
        self.done().await
    }

    /// Waits for an answer that says no more than that it is done.
    pub(crate) async fn done(&mut self) -> Result<(), Ending> {
        match self.ask().await? {
            ServerMethod::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn greet(&mut self, route: &str, options: &RabbitMqOptions, address: &Address) -> Result<(), Refused> {
        let at = |step: Step| move |ending| Refused::Ended(step, ending);
        let mechanisms = match self.ask().await.map_err(at(Step::Greeting))? {
            ServerMethod::Start { mechanisms } => mechanisms,
            other => return Err(Refused::Ended(Step::Greeting, unexpected(&other))),
        };
        let (mechanism, response) = credentials(&address.login);
        if !mechanisms.split_whitespace().any(|offered| offered == mechanism) {
            return Err(Refused::Failed(failures::mechanism(address, mechanism, &mechanisms)));
        }
        self.introduce(route, mechanism, &response);
        let (frame_max, theirs) = match self.ask().await.map_err(at(Step::Login))? {
            ServerMethod::Tune { frame_max, heartbeat_seconds } => (frame_max, heartbeat_seconds),
            other => return Err(Refused::Ended(Step::Login, unexpected(&other))),
        };
        let frame_max = if frame_max == 0 { FRAME_MAX } else { frame_max };
        let ours = u16::try_from(options.heartbeat.as_secs()).unwrap_or(u16::MAX).max(1);
        let heartbeat = if theirs == 0 { ours } else { ours.min(theirs) };
        encode::tune_ok(&mut self.output, frame_max, heartbeat);
        encode::connection_open(&mut self.output, &address.vhost);
        self.frame_max = frame_max as usize;
        self.heartbeat = Heartbeat::new(Duration::from_secs(heartbeat.into()));
        self.done().await.map_err(at(Step::Vhost))?;
        self.open_channel().await.map_err(at(Step::Channel))
    }

    fn introduce(&mut self, route: &str, mechanism: &str, response: &Secret) {
        let name = format!("postroom, route {route}");
        let client = [
            ("product", Value::Text("postroom")),
            ("version", Value::Text(env!("CARGO_PKG_VERSION"))),
            ("connection_name", Value::Text(&name)),
            (
                "capabilities",
                Value::Table(&[
                    ("publisher_confirms", Value::Yes),
                    ("basic.nack", Value::Yes),
                    ("connection.blocked", Value::Yes),
                    ("authentication_failure_close", Value::Yes),
                ]),
            ),
        ];
        encode::start_ok(&mut self.output, &client, mechanism, response.expose());
    }
}

/// How far we had come.
#[derive(Debug, Clone, Copy)]
enum Step {
    Greeting,
    Login,
    Vhost,
    Channel,
}

enum Refused {
    Failed(Failure),
    Ended(Step, Ending),
}

impl Step {
    fn failure(self, address: &Address, ending: &Ending) -> Failure {
        match (self, ending) {
            (Self::Login, Ending::Connection(closing)) => failures::login(address, closing),
            (Self::Vhost, Ending::Connection(closing)) => failures::vhost(address, closing),
            _ => failures::ending(address, ending),
        }
    }
}

fn credentials(login: &Login) -> (&'static str, Secret) {
    match login {
        Login::Password { user, password } => ("PLAIN", Secret::new(format!("\0{user}\0{}", password.expose()))),
        Login::Certificate => ("EXTERNAL", Secret::new("")),
    }
}

fn unexpected(said: &ServerMethod) -> Ending {
    Ending::Garbled(format!("{said:?} where something else was asked for"))
}
