//! Finding the server to work with: the primary among several, and whether a pooler stands in front of it.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{StoreError, StoreErrorKind};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, PgPool, Row};

use super::TablesOf;
use super::pool::Pool;
use crate::error::Fault;
use crate::options::{Pooler, PostgresOptions};

/// How long a server may take to let us in and say what it is: one that never answers must not end the search.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Settings of our own sessions. Behind a pooler they would stay with strangers.
///
/// Compiling a statement to machine code takes longer than any of ours runs. A leaf that was empty when a statement was
/// planned may be full by now: an index is the better guess. Every statement is meant for one plan, whatever its parameters:
/// making it anew each time would cost more than most of them.
///
/// A client may vanish without a word: stopped, cut off, without power. What it holds must be free soon, so a transaction may
/// not stand idle for longer than others wait for a lock, an answer must be acknowledged in time, and a silent connection is
/// asked whether anybody is there. A transaction that works is never ended by these.
const SETTINGS: [(&str, &str); 10] = [
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("statement_timeout", "19s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "8s"),
    ("tcp_user_timeout", "10s"),
    ("tcp_keepalives_idle", "10s"),
    ("tcp_keepalives_interval", "5s"),
    ("tcp_keepalives_count", "3"),
];
/// The same where nothing may take long, or more than one processor.
const LOOKING: [(&str, &str); 3] =
    [("statement_timeout", "2s"), ("lock_timeout", "2s"), ("max_parallel_workers_per_gather", "0")];
/// How often the probe for a pooler asks.
const PROBES: usize = 4;

/// The servers that may have the database; one of them is the primary.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    all: Vec<PgConnectOptions>,
    looking: Arc<AtomicBool>,
}

impl Servers {
    pub(super) fn parse(options: &PostgresOptions) -> Result<Self, StoreError> {
        let parse = |url: &String| {
            let options = PgConnectOptions::from_str(url).map_err(|_| {
                // The error would repeat the URL, with its password.
                let message = format!("the url of store {:?} cannot be read", options.name);
                StoreError::new(StoreErrorKind::Invalid, "open", message)
                    .hint("write it as postgres://user:password@host:5432/database")
            })?;
            Ok(options.application_name("postroom").disable_statement_logging())
        };
        let all = options.urls.iter().map(parse).collect::<Result<Vec<_>, StoreError>>()?;
        if all.is_empty() {
            let message = format!("store {:?} has no url", options.name);
            return Err(StoreError::new(StoreErrorKind::Invalid, "open", message));
        }
        Ok(Self { all, looking: Arc::default() })
    }

    /// Connects to the first one that is not a standby; says whether a pooler stands in front of it.
    pub(super) async fn reach(&self, pooler: Pooler) -> Result<(PgConnectOptions, bool), StoreError> {
        let mut first = None;
        for options in &self.all {
            let conn = match try_one(options).await {
                Ok(conn) => conn,
                Err(error) => {
                    first = first.or(Some(error));
                    continue;
                }
            };
            match within(options, pooled(options, conn, pooler)).await {
                Ok(true) => return Ok((options.clone().statement_cache_capacity(0), true)),
                Ok(false) => return Ok((options.clone(), false)),
                Err(error) if error.kind == StoreErrorKind::Refused => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "open", "there is no server to try")))
    }

    /// After trouble: looks which server is the primary now, and points the pools there.
    pub(super) fn moved(&self, callers: &PgPool, ours: [&Arc<Pool>; 2]) {
        if self.all.len() < 2 || self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (servers, callers, ours) = (self.clone(), callers.clone(), ours.map(Arc::clone));
        tokio::spawn(async move {
            for options in &servers.all {
                if try_one(options).await.is_ok() {
                    // Where it is changes, how we use it does not.
                    let there = callers.connect_options();
                    callers.set_connect_options((*there).clone().host(options.get_host()).port(options.get_port()));
                    for pool in ours {
                        pool.move_to(options.get_host(), options.get_port());
                    }
                    break;
                }
            }
            servers.looking.store(false, Ordering::Release);
        });
    }
}

/// A connection to a server that is a primary and new enough.
async fn try_one(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    within(options, ask_one(options)).await
}

/// Does something that a server may keep us waiting with for ever, for as long as we wait to be let in.
async fn within<T>(
    options: &PgConnectOptions,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let done = tokio::time::timeout(CONNECT_TIMEOUT, work).await;
    done.unwrap_or_else(|_| Err(Fault::TimedOut.at("connect", &place(options))))
}

async fn ask_one(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let at = place(options);
    let mut conn = options.connect().await.map_err(|e| Fault::from(e).at("connect", &at))?;
    let row = sqlx::raw_sql("select pg_is_in_recovery(), current_setting('server_version_num')::int4")
        .fetch_one(&mut conn)
        .await
        .map_err(|e| Fault::from(e).at("connect", &at))?;
    let unreadable = |e: sqlx::Error| Fault::from(e).at("connect", &at);
    if row.try_get_unchecked::<&str, _>(0).map_err(unreadable)? == "t" {
        return Err(StoreError::new(StoreErrorKind::Unreachable, "connect", format!("{at} is a standby"))
            .hint("give the url of the primary, or a list of all servers: the one that is no standby is used"));
    }
    let version: u32 = row.try_get_unchecked::<&str, _>(1).map_err(unreadable)?.parse().unwrap_or_default();
    if version < 140_000 {
        let message = format!("{at} is PostgreSQL {}, the store needs 14 or newer", version / 10_000);
        return Err(StoreError::new(StoreErrorKind::Refused, "connect", message));
    }
    Ok(conn)
}

/// Whether a pooler gives transactions sessions as it likes: two clients meet in one session, or one client moves.
async fn pooled(options: &PgConnectOptions, mut one: PgConnection, pooler: Pooler) -> Result<bool, StoreError> {
    let at = place(options);
    if pooler == Pooler::Transaction {
        let _ = one.close().await;
        return Ok(true);
    }
    let mut two = options.connect().await.map_err(|e| Fault::from(e).at("connect", &at))?;
    let mut found = false;
    let mut before = None;
    for _ in 0..PROBES {
        // A server that does not answer has not said that there is no pooler.
        let pids = async { Ok((pid(&mut one).await?, pid(&mut two).await?)) };
        let pids = pids.await.map_err(|e: sqlx::Error| Fault::from(e).at("connect", &at))?;
        found |= pids.0 == pids.1 || before.is_some_and(|before| before != pids);
        before = Some(pids);
    }
    let _ = (one.close().await, two.close().await);
    if found && pooler == Pooler::None {
        let message = format!("a pooler stands in front of {at}, but the configuration says there is none");
        return Err(StoreError::new(StoreErrorKind::Refused, "connect", message)
            .hint("set `pooler = \"transaction\"` for this store, or connect past the pooler"));
    }
    Ok(found)
}

async fn pid(conn: &mut PgConnection) -> Result<i32, sqlx::Error> {
    let row = sqlx::raw_sql("select pg_backend_pid()").fetch_one(conn).await?;
    row.try_get_unchecked::<&str, _>(0)?.parse().map_err(|e| sqlx::Error::Decode(Box::new(e)))
}

/// The same server for our own sessions.
pub(super) fn ours(options: &PgConnectOptions, pooled: bool, of: TablesOf, looking: bool) -> PgConnectOptions {
    if pooled {
        return options.clone();
    }
    let path = (of == TablesOf::Ourselves).then_some(("search_path", "pg_catalog"));
    // Those that end what a client who vanished holds.
    let ends = |name: &str| name.starts_with("idle_in") || name.starts_with("tcp");
    let settings = SETTINGS.iter().copied().filter(|(name, _)| !(faults::is(Old::IdleForEver) && ends(name)));
    let ours = options.clone().options(settings).options(path);
    if looking { ours.options(LOOKING) } else { ours }
}

/// What people know the database as; without user and password.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    format!("{database} at {}:{}", options.get_host(), options.get_port())
}
