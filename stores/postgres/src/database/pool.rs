//! Connections of our own, kept for the next piece of work.
//!
//! sqlx's pool asks the server after every use whether the connection still lives: a round trip for nothing on the way that is
//! gone most often, and one without a deadline. Here a connection comes back only when its work ended well, and is asked before
//! its next use only when another one was lost meanwhile.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _, PgPool, Postgres};
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

/// Where connections come from.
#[derive(Debug)]
pub(super) enum Pool {
    /// Connections of our own.
    Own(Own),
    /// The caller's pool.
    Callers(PgPool),
}

/// Up to so many connections to one server.
#[derive(Debug)]
pub(super) struct Own {
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
pub(crate) struct Lent(Origin);

#[derive(Debug)]
enum Origin {
    Own { conn: PgConnection, made: Instant, shared: Arc<Shared>, _slot: OwnedSemaphorePermit },
    Callers(CallersConnection),
}

/// A connection of the caller's pool that goes back only when its work ended well.
#[derive(Debug)]
struct CallersConnection {
    conn: PoolConnection<Postgres>,
    ended_well: bool,
}

impl Pool {
    pub(super) fn new(max: usize, patience: Duration, options: PgConnectOptions, doubt: Doubt) -> Self {
        let shared = Shared { options: Mutex::new(options), idle: Mutex::default(), doubt };
        Self::Own(Own { slots: Arc::new(Semaphore::new(max)), shared: Arc::new(shared), patience })
    }

    pub(super) fn of_callers(pool: PgPool) -> Self {
        Self::Callers(pool)
    }

    pub(super) async fn acquire(&self) -> Result<Lent, Fault> {
        match self {
            Self::Own(own) => own.acquire().await,
            Self::Callers(pool) => {
                let conn = pool.acquire().await?;
                Ok(Lent(Origin::Callers(CallersConnection { conn, ended_well: false })))
            }
        }
    }

    /// From now on connections of our own are made to this server.
    pub(super) fn move_to(&self, there: &PgConnectOptions) {
        if let Self::Own(own) = self {
            let mut options = lock(&own.shared.options);
            let moved = options.clone().host(there.get_host()).port(there.get_port());
            *options = moved.ssl_mode(there.get_ssl_mode());
        }
    }
}

impl Own {
    /// A connection: an idle one that is to be trusted, or a new one.
    async fn acquire(&self) -> Result<Lent, Fault> {
        let now = tokio::time::Instant::now();
        let (patience, deadline) = (now + self.patience, now + ACQUIRE_TIMEOUT);
        let Ok(Ok(slot)) = timeout_at(patience, Arc::clone(&self.slots).acquire_owned()).await else {
            return Err(sqlx::Error::PoolTimedOut.into());
        };
        let lent = |conn, made| Lent(Origin::Own { conn, made, shared: Arc::clone(&self.shared), _slot: slot });
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
        match self.0 {
            Origin::Own { conn, made, shared, _slot } => {
                lock(&shared.idle).push(Idle { conn, made, since: Instant::now() });
            }
            Origin::Callers(mut lent) => lent.ended_well = true,
        }
    }
}

impl Drop for CallersConnection {
    fn drop(&mut self) {
        if !self.ended_well {
            // It may be inside a transaction of ours: nobody else must get it.
            self.conn.close_on_drop();
        }
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match &self.0 {
            Origin::Own { conn, .. } => conn,
            Origin::Callers(lent) => &lent.conn,
        }
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match &mut self.0 {
            Origin::Own { conn, .. } => conn,
            Origin::Callers(lent) => &mut lent.conn,
        }
    }
}

/// Whether the server still answers on a connection.
pub(super) async fn answers(conn: &mut PgConnection) -> bool {
    matches!(tokio::time::timeout(ANSWER_TIMEOUT, conn.ping()).await, Ok(Ok(())))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
