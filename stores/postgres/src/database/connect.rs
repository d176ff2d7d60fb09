//! Finding the server to work with: the primary among several, and whether a pooler stands in front of it.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{Diagnostic, StoreError, StoreErrorKind, is_loopback};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgPool, Row};

use super::TablesOf;
use super::pool::Pool;
use crate::error::Fault;
use crate::options::{Pooler, PostgresOptions};

/// How long a server may take to let us in and say what it is: one that never answers must not end the search.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Settings of our own sessions. Behind a pooler they would stay with strangers.
///
/// Compiling a statement to machine code takes longer than any of ours runs. A partition that was empty when a statement was
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
const ADMIN_SETTINGS: [(&str, &str); 3] =
    [("statement_timeout", "2s"), ("lock_timeout", "2s"), ("max_parallel_workers_per_gather", "0")];
/// How often the probe for a pooler asks.
const PROBES: usize = 4;

/// The servers that may have the database; one of them is the primary.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    all: Vec<PgConnectOptions>,
    searching: Arc<AtomicBool>,
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
            let options = verified(options, url);
            // PgBouncer refuses clients that send it, and every server we serve prints numbers in full without.
            Ok(options.application_name("postroom").extra_float_digits(None).disable_statement_logging())
        };
        let all = options.urls.iter().map(parse).collect::<Result<Vec<_>, StoreError>>()?;
        if all.is_empty() {
            let message = format!("store {:?} has no url", options.name);
            return Err(StoreError::new(StoreErrorKind::Invalid, "open", message));
        }
        Ok(Self { all, searching: Arc::default() })
    }

    /// The server of a pool that the application has, asked through that pool.
    pub(super) async fn of_pool(pool: &PgPool, pooler: Pooler) -> Result<(Self, (PgConnectOptions, bool)), StoreError> {
        let options = (*pool.connect_options()).clone().application_name("postroom").disable_statement_logging();
        let at = place(&options);
        let failed = |error| Fault::from(error).at("connect", &at);
        let mut one = pool.acquire().await.map_err(failed)?;
        check(&mut one, &at).await?;
        // A pool of one connection cannot show whether two meet in one session.
        let pooled = match pooler {
            Pooler::Transaction => true,
            _ if pool.options().get_max_connections() < 2 => false,
            _ => {
                let mut two = pool.acquire().await.map_err(failed)?;
                meet(&mut one, &mut two, pooler, &at).await?
            }
        };
        let options = if pooled { options.statement_cache_capacity(0) } else { options };
        Ok((Self { all: vec![options.clone()], searching: Arc::default() }, (options, pooled)))
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
                Err(error) if error.kind == StoreErrorKind::PermissionDenied => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "open", "there is no server to try")))
    }

    /// After trouble: looks which server is the primary now, and points the pools there.
    pub(super) fn moved(&self, callers: &PgPool, ours: [&Arc<Pool>; 2]) {
        if self.all.len() < 2 || self.searching.swap(true, Ordering::AcqRel) {
            return;
        }
        let (servers, callers, ours) = (self.clone(), callers.clone(), ours.map(Arc::clone));
        tokio::spawn(async move {
            for options in &servers.all {
                if try_one(options).await.is_ok() {
                    // Where it is changes, how we use it does not.
                    let there = callers.connect_options();
                    let there = (*there).clone().host(options.get_host()).port(options.get_port());
                    callers.set_connect_options(there.ssl_mode(options.get_ssl_mode()));
                    for pool in ours {
                        pool.move_to(options);
                    }
                    break;
                }
            }
            servers.searching.store(false, Ordering::Release);
        });
    }
}

/// A server on another machine must prove who it is before it gets the password, unless the URL or `PGSSLMODE` says otherwise in words.
fn verified(options: PgConnectOptions, url: &str) -> PgConnectOptions {
    let mut pairs = url.split_once('?').map(|(_, query)| query).unwrap_or_default().split('&');
    let in_url = pairs.any(|pair| pair.starts_with("sslmode=") || pair.starts_with("ssl-mode="));
    let said = in_url || std::env::var_os("PGSSLMODE").is_some();
    if said || is_local(&options) { options } else { options.ssl_mode(PgSslMode::VerifyFull) }
}

/// Whether sessions do not leave this machine.
fn is_local(options: &PgConnectOptions) -> bool {
    options.get_socket().is_some() || is_loopback(options.get_host())
}

/// How sessions with these options travel, for people; `encrypted` is what the server says of ours.
pub(super) fn travels(options: &PgConnectOptions, encrypted: bool) -> Diagnostic {
    let at = place(options);
    let verified = matches!(options.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull);
    let required = verified || matches!(options.get_ssl_mode(), PgSslMode::Require);
    match (is_local(options), encrypted || required, verified) {
        (true, _, _) => Diagnostic::fine("sessions stay on this machine"),
        (false, true, true) => Diagnostic::fine("sessions are encrypted, and the server's certificate is verified"),
        (false, true, false) => Diagnostic::warning(
            "doctor.unverified",
            format!("sessions to {at} are encrypted, but nobody verifies that it is the right server"),
        ),
        (false, false, _) => Diagnostic::warning(
            "doctor.plaintext",
            format!("sessions to {at} are not encrypted: passwords and payloads can be read"),
        ),
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
    check(&mut conn, &at).await?;
    Ok(conn)
}

/// Fails unless the server is a primary and new enough.
async fn check(conn: &mut PgConnection, at: &str) -> Result<(), StoreError> {
    let row = sqlx::raw_sql("select pg_is_in_recovery(), current_setting('server_version_num')::int4")
        .fetch_one(conn)
        .await
        .map_err(|e| Fault::from(e).at("connect", at))?;
    let unreadable = |e: sqlx::Error| Fault::from(e).at("connect", at);
    if row.try_get_unchecked::<&str, _>(0).map_err(unreadable)? == "t" {
        return Err(StoreError::new(StoreErrorKind::Unreachable, "connect", format!("{at} is a standby"))
            .hint("give the url of the primary, or a list of all servers: the primary is used"));
    }
    let version: u32 = row.try_get_unchecked::<&str, _>(1).map_err(unreadable)?.parse().unwrap_or_default();
    if version < 140_000 {
        let message = format!("{at} is PostgreSQL {}, the store needs 14 or newer", version / 10_000);
        return Err(StoreError::new(StoreErrorKind::PermissionDenied, "connect", message));
    }
    Ok(())
}

/// Whether a pooler is there that gives transactions sessions as it likes, or takes no settings for a session: two clients meet
/// in one session, one client moves, or the settings are refused.
async fn pooled(options: &PgConnectOptions, mut one: PgConnection, pooler: Pooler) -> Result<bool, StoreError> {
    let at = place(options);
    if pooler == Pooler::Transaction {
        let _ = one.close().await;
        return Ok(true);
    }
    let mut two = match ours(options, false, TablesOf::Ourselves, false).connect().await {
        Ok(two) => two,
        Err(error) if refuses_settings(&error) => {
            let _ = one.close().await;
            return if pooler == Pooler::None { Err(undeclared(&at)) } else { Ok(true) };
        }
        Err(error) => return Err(Fault::from(error).at("connect", &at)),
    };
    let found = meet(&mut one, &mut two, pooler, &at).await;
    let _ = (one.close().await, two.close().await);
    found
}

/// Whether the error is PgBouncer's about settings that came with the start of a session.
fn refuses_settings(error: &sqlx::Error) -> bool {
    let refused = error.as_database_error();
    refused.is_some_and(|refused| refused.message().starts_with("unsupported startup parameter"))
}

fn undeclared(at: &str) -> StoreError {
    let message = format!("a pooler is in front of {at}, but the configuration declares none");
    StoreError::new(StoreErrorKind::PermissionDenied, "connect", message)
        .hint("set `pooler = \"transaction\"` for this store, or connect past the pooler")
}

/// Whether two clients meet in one session, or one moves; an error when the options say that nothing does that.
async fn meet(one: &mut PgConnection, two: &mut PgConnection, pooler: Pooler, at: &str) -> Result<bool, StoreError> {
    let mut found = false;
    let mut before = None;
    for _ in 0..PROBES {
        // A server that does not answer has not said that there is no pooler.
        let pids = async { Ok((pid(one).await?, pid(two).await?)) };
        let pids = pids.await.map_err(|e: sqlx::Error| Fault::from(e).at("connect", at))?;
        found |= pids.0 == pids.1 || before.is_some_and(|before| before != pids);
        before = Some(pids);
    }
    if found && pooler == Pooler::None {
        return Err(undeclared(at));
    }
    Ok(found)
}

async fn pid(conn: &mut PgConnection) -> Result<i32, sqlx::Error> {
    let row = sqlx::raw_sql("select pg_backend_pid()").fetch_one(conn).await?;
    row.try_get_unchecked::<&str, _>(0)?.parse().map_err(|e| sqlx::Error::Decode(Box::new(e)))
}

/// The same server for our own sessions.
pub(super) fn ours(options: &PgConnectOptions, pooled: bool, of: TablesOf, for_admin: bool) -> PgConnectOptions {
    if pooled {
        return options.clone();
    }
    let path = (of == TablesOf::Ourselves).then_some(("search_path", "pg_catalog"));
    // Those that end what a client who vanished holds.
    let ends = |name: &str| name.starts_with("idle_in") || name.starts_with("tcp");
    let settings = SETTINGS.iter().copied().filter(|(name, _)| !(faults::is(Old::IdleForEver) && ends(name)));
    let ours = options.clone().options(settings).options(path);
    if for_admin { ours.options(ADMIN_SETTINGS) } else { ours }
}

/// What people know the database as; without user and password.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    format!("{database} at {}:{}", options.get_host(), options.get_port())
}
