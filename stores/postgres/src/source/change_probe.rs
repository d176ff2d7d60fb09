//! Is there anything to look for? One statement for all routes of a store, instead of a look by each; and while nothing at
//! all is written in the cluster, an even smaller one.
//!
//! A look found nothing. Until a number is drawn, a transaction that ran then ends, something becomes due, or somebody
//! changes a lane, a route or a relay, there is nothing to find: whoever holds a number took its transaction id first, so it
//! was running then, or was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use postroom_core::{StoreError, Take};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use tokio::sync::Mutex;

use super::ownership_snapshot::Server;
use super::position::Snapshot;
use super::watch::Watch;
use crate::clock::Time;
use crate::store::Inner;

/// How old an answer may be that several routes share.
const SHARED_FOR: Duration = Duration::from_millis(2);
/// How long nothing has to be read again while nothing is written: time alone ends leases.
const UNCHANGED_FOR: Duration = Duration::from_secs(1);

/// The change_probe of a store.
#[derive(Debug, Default)]
pub(crate) struct ChangeProbe {
    routes: SyncMutex<BTreeSet<String>>,
    last: Mutex<Option<LastProbe>>,
    pub(super) watch: SyncMutex<Watch>,
}

#[derive(Debug)]
struct LastProbe {
    /// When the fingerprint was felt.
    full: Instant,
    /// When it was last found to be the same.
    began: Instant,
    hints: u64,
    now: i64,
    fingerprint: Arc<Fingerprint>,
}

/// What one statement said.
#[derive(Debug)]
pub(super) struct Fingerprint {
    still: ServerFingerprint,
    snapshot: Snapshot,
    routes: BTreeMap<String, RouteFingerprint>,
}

/// What changes whenever anything does.
#[derive(Debug, PartialEq, Eq)]
struct ServerFingerprint {
    last: i64,
    snapshot: String,
    server: Server,
}

impl ServerFingerprint {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { last: row.try_get("last")?, snapshot: row.try_get("snap")?, server: Server::read(row)? })
    }
}

#[derive(Debug)]
struct RouteFingerprint {
    paused: bool,
    due: Option<i64>,
    lanes: Vec<Option<String>>,
    live: Vec<String>,
}

/// A look that found nothing, and what it saw.
#[derive(Debug)]
pub(super) struct IdleSnapshot {
    pub(super) last: i64,
    /// Transactions that ran.
    pub(super) running: BTreeSet<i64>,
    pub(super) server: Server,
    pub(super) due: Option<i64>,
    pub(super) lanes: Vec<Option<String>>,
    pub(super) live: Vec<String>,
    pub(super) result: Take,
}

impl IdleSnapshot {
    /// Whether still nothing can be found.
    pub(super) fn holds(&self, fingerprint: &Fingerprint, now: i64, route: &str) -> bool {
        let Some(there) = fingerprint.routes.get(route) else { return false };
        self.last == fingerprint.still.last
            && self.server.goes_on_as(&fingerprint.still.server)
            && !self.running.iter().any(|x| fingerprint.snapshot.has_ended(*x))
            && self.due == there.due
            && self.due.is_none_or(|due| due > now)
            && !there.paused
            && (&self.lanes, &self.live) == (&there.lanes, &there.live)
    }
}

impl ChangeProbe {
    /// Includes a route from now on.
    pub(super) fn listen(&self, route: &str) {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).insert(route.to_owned());
    }

    /// How many routes listen.
    pub(super) fn routes(&self) -> usize {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Feels it, or shares what was felt a moment ago for another route if nobody gave a hint; with the time of it.
    pub(super) async fn probe(inner: &Arc<Inner>) -> Result<(Arc<Fingerprint>, i64), StoreError> {
        let change_probe = &inner.change_probe;
        let mut last = change_probe.last.lock().await;
        let (began, hints, clock) = (Instant::now(), inner.wake.given(), inner.clock());
        let shared_for = if change_probe.routes() < 2 { Duration::ZERO } else { SHARED_FOR };
        let before = last.take().filter(|felt| clock.is_none() && felt.hints == hints);
        if let Some(felt) = before.as_ref().filter(|felt| felt.began.elapsed() < shared_for) {
            let shared = (Arc::clone(&felt.fingerprint), felt.now);
            *last = before;
            return Ok(shared);
        }
        let routes =
            change_probe.routes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect::<Vec<_>>();
        let known =
            before.filter(|felt| felt.full.elapsed() < UNCHANGED_FOR && felt.fingerprint.routes.len() == routes.len());
        let felt = inner
            .db
            .read("take", move |session| {
                Box::pin(async move {
                    if let Some(LastProbe { full, fingerprint, .. }) = known {
                        let still = session.sql.query(include_str!("../sql/idle_probe.sql"));
                        let row = still.fetch_one(&mut *session.conn).await?;
                        if ServerFingerprint::read(&row)? == fingerprint.still {
                            let now = row.try_get::<Time, _>("now")?.0;
                            return Ok(LastProbe { full, began, hints, now, fingerprint });
                        }
                    }
                    let statement = session.sql.query(include_str!("../sql/change_probe.sql"));
                    let rows = statement.bind(clock).bind(routes).fetch_all(&mut *session.conn).await?;
                    let (fingerprint, now) = fingerprint(&rows)?;
                    Ok(LastProbe { full: began, began, hints, now, fingerprint: Arc::new(fingerprint) })
                })
            })
            .await?;
        let found = (Arc::clone(&felt.fingerprint), felt.now);
        *last = Some(felt);
        Ok(found)
    }
}

fn fingerprint(rows: &[PgRow]) -> Result<(Fingerprint, i64), sqlx::Error> {
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let mut routes = BTreeMap::new();
    for row in rows {
        let fingerprint = RouteFingerprint {
            paused: row.try_get("paused")?,
            due: row.try_get::<Option<Time>, _>("due")?.map(|due| due.0),
            lanes: row.try_get("lanes")?,
            live: row.try_get("live")?,
        };
        routes.insert(row.try_get("name")?, fingerprint);
    }
    let still = ServerFingerprint::read(first)?;
    let snapshot =
        Snapshot::parse(&still.snapshot, 0).ok_or_else(|| sqlx::Error::Decode("a snapshot cannot be read".into()))?;
    Ok((Fingerprint { still, snapshot, routes }, first.try_get::<Time, _>("now")?.0))
}
