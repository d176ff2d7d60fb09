//! Connections of our own, kept for the next piece of work.
//!
//! sqlx's pool asks the server after every use whether the connection still lives: a round trip for nothing on the way that is
//! gone most often, and one without a deadline. Here a connection comes back only when its work ended well, and is asked before
//! its next use only when another one was lost meanwhile.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use super::Doubt;
use crate::error::{Fault, is_starting};

/// How long to wait for a connection.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection in doubt may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two tries to reach a server that is starting.
const TRY_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection may lie idle, and how old it may get.
const IDLE_MAX: Duration = Duration::from_mins(10);
const AGE_MAX: Duration = Duration::from_mins(30);

/// Up to so many connections to one server.
#[derive(Debug)]
pub(super) struct Pool {
    slots: Arc<Semaphore>,
    shared: Arc<Shared>,
    /// How long to wait for a free one, or for a server that is starting.
    patience: Duration,
}

#[derive(Debug)]
struct Shared {
    options: Mutex<PgConnectOptions>,
    idle: Mutex<Vec<Idle>>,
    doubt: Doubt,
}

#[derive(Debug)]
struct Idle {
    conn: PgConnection,
    made: Instant,
    since: Instant,
}

/// A connection in use. Dropped, it is closed; [`Self::give_back`] keeps it.
#[derive(Debug)]
pub(crate) struct Lent {
    conn: PgConnection,
    made: Instant,
    shared: Arc<Shared>,
    _slot: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(max: usize, patience: Duration, options: PgConnectOptions, doubt: Doubt) -> Self {
        let shared = Shared { options: Mutex::new(options), idle: Mutex::default(), doubt };
        Self { slots: Arc::new(Semaphore::new(max)), shared: Arc::new(shared), patience }
    }

    /// A connection: an idle one that is to be trusted, or a new one.
    pub(super) async fn acquire(&self) -> Result<Lent, Fault> {
        let now = tokio::time::Instant::now();
        let (patience, deadline) = (now + self.patience, now + ACQUIRE_TIMEOUT);
        let Ok(Ok(slot)) = timeout_at(patience, Arc::clone(&self.slots).acquire_owned()).await else {
            return Err(sqlx::Error::PoolTimedOut.into());
        };
        let lent = |conn, made| Lent { conn, made, shared: Arc::clone(&self.shared), _slot: slot };
        while let Some(Idle { mut conn, made, since }) = self.shared.newest() {
            if self.shared.doubt.trusts(since.elapsed()) || answers(&mut conn).await {
                return Ok(lent(conn, made));
            }
            // It speaks for those that lay idle with it; each would cost a wait.
            lock(&self.shared.idle).clear();
        }
        loop {
            let options = lock(&self.shared.options).clone();
            match timeout_at(deadline, options.connect()).await {
                Ok(Ok(conn)) => return Ok(lent(conn, Instant::now())),
                Ok(Err(error)) if is_starting(&error) && tokio::time::Instant::now() + TRY_PAUSE < patience => {
                    tokio::time::sleep(TRY_PAUSE).await;
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(Fault::TimedOut),
            }
        }
    }

    /// From now on connections are made to this server.
    pub(super) fn move_to(&self, host: &str, port: u16) {
        let mut options = lock(&self.shared.options);
        *options = options.clone().host(host).port(port);
    }
}

impl Shared {
    /// The idle connection that was used last, of those that are not too old.
    fn newest(&self) -> Option<Idle> {
        let mut idle = lock(&self.idle);
        idle.retain(|one| one.since.elapsed() < IDLE_MAX && one.made.elapsed() < AGE_MAX);
        idle.pop()
    }
}

impl Lent {
    /// Keeps it for the next one.
    pub(super) fn give_back(self) {
        let Self { conn, made, shared, _slot } = self;
        lock(&shared.idle).push(Idle { conn, made, since: Instant::now() });
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

/// Whether the server still answers on a connection.
pub(super) async fn answers(conn: &mut PgConnection) -> bool {
    matches!(tokio::time::timeout(ANSWER_TIMEOUT, conn.ping()).await, Ok(Ok(())))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
