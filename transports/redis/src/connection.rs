//! One connection: opened once, commands out in pipelines, answers in, one end.
//!
//! Made by hand up to the first byte, so that certificates are judged as everywhere else and nothing reconnects.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Failure, SecretUrl};
use postroom_tls::TlsFiles;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisResult, Value};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::failures;

/// Most pipelines that wait inside the client.
const PIPELINES_MAX: usize = 256;
/// How much is written at once.
const WRITE_BYTES: usize = 64 * 1024;
/// What every server takes that has not been told otherwise, and one that does not tell is believed to take.
const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;

/// An open connection. When dropped, it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    commands: MultiplexedConnection,
    driver: JoinSet<()>,
    /// Longest part of a command that the server takes; it hangs up on a longer one.
    pub(crate) bulk_bytes_max: usize,
    /// The server, for people.
    pub(crate) server: String,
}

impl Connection {
    /// Connects, logs in, and asks for the one limit that would end the connection.
    pub(crate) async fn open(url: &SecretUrl, tls: &TlsFiles, within: Duration) -> Result<Self, Failure> {
        let server = url.to_string();
        let opening = timeout(within, Self::to(url, tls, &server));
        opening.await.unwrap_or_else(|_| Err(failures::unreachable(&server, &"no answer")))
    }

    async fn to(url: &SecretUrl, tls: &TlsFiles, server: &str) -> Result<Self, Failure> {
        let unfit = |_| failures::unreachable(server, &"that is no URL of a Redis server");
        let info = url.expose().into_connection_info().map_err(unfit)?;
        let (host, port, private) = match info.addr() {
            ConnectionAddr::Tcp(..) if *tls != TlsFiles::default() => {
                return Err(failures::tls(server, &"certificates are given; write rediss:// instead of redis://"));
            }
            ConnectionAddr::Tcp(host, port) => (host, *port, false),
            ConnectionAddr::TcpTls { host, port, insecure: false, .. } => (host, *port, true),
            _ => return Err(failures::unreachable(server, &"write redis://HOST:PORT/DB, or rediss:// for TLS")),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| failures::unreachable(server, &error))?;
        // Fails only on a connection that is over already.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = if private {
            let client = tls.client().map_err(|error| failures::tls(server, &error))?;
            let name = ServerName::try_from(host.clone()).map_err(|error| failures::tls(server, &error))?;
            let handshake = TlsConnector::from(Arc::new(client)).connect(name, stream).await;
            Box::new(handshake.map_err(|error| failures::handshake(&error, server))?)
        } else {
            Box::new(stream)
        };
        // The time is ours to keep: the client's own time-out would report one command and go on with the others.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINES_MAX)
            .set_write_backpressure_boundary(WRITE_BYTES);
        let made = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await;
        let (commands, driving) = made.map_err(|error| failures::setup(&error, server, private))?;
        let mut driver = JoinSet::new();
        driver.spawn(driving);
        let server = server.to_owned();
        let mut connection = Self { commands, driver, bulk_bytes_max: BULK_BYTES_MAX, server };
        if let Some(limit) = connection.setting("proto-max-bulk-len").await?.and_then(|limit| limit.parse().ok()) {
            connection.bulk_bytes_max = limit;
        }
        Ok(connection)
    }

    /// Puts commands on their way; their answers come together, refusals among them.
    pub(crate) fn send(&self, commands: Pipeline) -> impl Future<Output = RedisResult<Vec<Value>>> + Send + use<> {
        let mut connection = self.commands.clone();
        let count = commands.len();
        async move { connection.send_packed_commands(&commands, 0, count).await }
    }

    /// The answer to one command.
    pub(crate) async fn ask(&mut self, command: &Cmd) -> Result<Value, Failure> {
        self.commands.send_packed_command(command).await.map_err(|error| failures::lost(&error, &self.server))
    }

    /// A setting of the server; `None` when we may not see it.
    pub(crate) async fn setting(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let answer = self.ask(redis::cmd("CONFIG").arg("GET").arg(name)).await?;
        let pair: Option<(String, String)> = redis::from_redis_value(answer).ok();
        Ok(pair.map(|(_, value)| value))
    }

    /// Resolves when there will be no more answers. May be cancelled and called again.
    pub(crate) async fn ended(&mut self) {
        self.driver.join_next().await;
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}
