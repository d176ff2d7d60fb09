//! A window of ids in Redis, shared by all processes of a consumer.
//!
//! One key per consumer and event, which ends by itself by the server's clock. What the server forgets (a restart without
//! an append-only file, a fail-over, eviction under `maxmemory`) is forgotten here too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_consumer::dedup::{
    Confirmation, DedupClaim, DedupTicket, DedupWindow, DedupWindowError, DedupWindowOptions, check,
};
use postroom_core::{Failure, SecretUrl, new_id};
use postroom_tls::TlsFiles;
use redis::{Pipeline, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::failures;

/// -1 when the claim is ours, -2 when it was done before, else how long another one holds.
const CLAIM: &str = "local v = redis.call('get', KEYS[1]) \
    if not v then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return -1 end \
    if v == 'done' then return -2 end \
    return math.max(redis.call('pttl', KEYS[1]), 0)";
/// 1 when the claim was still ours. Remembered in any case: the effect is there.
const CONFIRM: &str = "local v = redis.call('get', KEYS[1]) \
    redis.call('set', KEYS[1], 'done', 'PX', ARGV[2]) \
    if v == ARGV[1] then return 1 end return 0";
/// Only our own claim is given back.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Options of a deduplication window in Redis.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedisDedupWindowOptions {
    /// URL of the server: `redis://`, or `rediss://` with TLS, then user and password, host, port and number of the database.
    pub url: SecretUrl,
    /// TLS files for `rediss://`.
    pub tls: TlsFiles,
    /// Prefix of the names of its keys. Defaults to `postroom:window`.
    pub prefix: String,
    /// Time-out of a response, and of connecting. Defaults to 5 seconds.
    pub timeout: Duration,
    /// Options of the window.
    pub window: DedupWindowOptions,
}

impl RedisDedupWindowOptions {
    /// Creates options with the defaults.
    pub fn new(url: SecretUrl, window: DedupWindowOptions) -> Self {
        let (tls, prefix) = (TlsFiles::default(), "postroom:window".to_owned());
        Self { url, tls, prefix, timeout: Duration::from_secs(5), window }
    }
}

/// Deduplication window in Redis. Connects at the first claim, and again after a lost connection.
pub struct RedisDedupWindow {
    options: RedisDedupWindowOptions,
    length: Duration,
    claim: Duration,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl RedisDedupWindow {
    /// Creates a window that is not connected yet.
    pub fn new(options: RedisDedupWindowOptions) -> Result<Self, DedupWindowError> {
        let (length, claim) = options.window.checked()?;
        Ok(Self { options, length, claim, connection: Mutex::default() })
    }

    /// The key of an event. The length keeps apart what a colon in a name would mix up.
    fn key(&self, consumer: &str, id: &str) -> String {
        format!("{}:{}:{consumer}:{id}", self.options.prefix, consumer.len())
    }

    async fn run(&self, script: &str, ticket: &DedupTicket, lasts: Duration) -> Result<i64, Failure> {
        let connection = self.connected().await?;
        let millis = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = Pipeline::new();
        let key = self.key(&ticket.consumer, &ticket.id);
        command.cmd("EVAL").arg(script).arg(1).arg(key).arg(&ticket.token).arg(millis);
        let failure = match timeout(self.options.timeout, connection.send(command)).await {
            Ok(Ok(answers)) => match answers.first() {
                Some(Value::Int(number)) => return Ok(*number),
                Some(Value::ServerError(error)) => {
                    failures::refused_at(error, &format!("window {}", self.options.prefix), "+eval and its keys")
                }
                _ => Failure::unavailable("redis.refused", "the window's script was not answered with a number"),
            },
            Ok(Err(error)) => failures::lost(&error, &connection.server),
            Err(_) => failures::timeout(&connection.server, &ticket.id, self.options.timeout),
        };
        // Whatever it was: the next one begins with a fresh connection, perhaps to another server.
        let mut current = self.connection.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &connection)) {
            *current = None;
        }
        Err(failure)
    }

    async fn connected(&self) -> Result<Arc<Connection>, Failure> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current {
            return Ok(Arc::clone(connection));
        }
        let RedisDedupWindowOptions { url, tls, timeout, .. } = &self.options;
        let connection = Arc::new(Connection::open(url, tls, *timeout).await?);
        *current = Some(Arc::clone(&connection));
        Ok(connection)
    }
}

impl DedupWindow for RedisDedupWindow {
    async fn claim(&self, consumer: &str, id: &str) -> Result<DedupClaim, Failure> {
        check(consumer, id)?;
        let ticket = DedupTicket { consumer: consumer.to_owned(), id: id.to_owned(), token: new_id() };
        Ok(match self.run(CLAIM, &ticket, self.claim).await? {
            -1 => DedupClaim::New(ticket),
            -2 => DedupClaim::Duplicate,
            left => DedupClaim::Held(Duration::from_millis(left.unsigned_abs())),
        })
    }

    async fn confirm(&self, ticket: DedupTicket) -> Result<Confirmation, Failure> {
        let ours = self.run(CONFIRM, &ticket, self.length).await? == 1;
        Ok(if ours { Confirmation::InTime } else { Confirmation::Late })
    }

    async fn release(&self, ticket: DedupTicket) -> Result<(), Failure> {
        self.run(RELEASE, &ticket, self.claim).await.map(drop)
    }
}

impl fmt::Debug for RedisDedupWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisDedupWindow").field("url", &self.options.url).finish_non_exhaustive()
    }
}
