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

use super::position::Snapshot;
use super::standing::Server;
use super::watch::Watch;
use crate::clock::Time;
use crate::store::Inner;

/// How old an answer may be that several routes share.
const SHARED_FOR: Duration = Duration::from_millis(2);
/// How long nothing has to be read again while nothing is written: time alone ends leases.
const STILL_FOR: Duration = Duration::from_secs(1);

/// The pulse of a store.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    routes: SyncMutex<BTreeSet<String>>,
    last: Mutex<Option<Felt>>,
    pub(super) watch: SyncMutex<Watch>,
}

#[derive(Debug)]
struct Felt {
    /// When the beat was felt.
    full: Instant,
    /// When it was last found to be the same.
    began: Instant,
    hints: u64,
    now: i64,
    beat: Arc<Beat>,
}

/// What one statement said.
#[derive(Debug)]
pub(super) struct Beat {
    still: Still,
    snapshot: Snapshot,
    routes: BTreeMap<String, RouteBeat>,
}

/// What changes whenever anything does.
#[derive(Debug, PartialEq, Eq)]
struct Still {
    last: i64,
    snapshot: String,
    server: Server,
}

impl Still {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { last: row.try_get("last")?, snapshot: row.try_get("snap")?, server: Server::read(row)? })
    }
}

#[derive(Debug)]
struct RouteBeat {
    paused: bool,
    due: Option<i64>,
    lanes: Vec<Option<String>>,
    live: Vec<String>,
}

/// A look that found nothing, and what it saw.
#[derive(Debug)]
pub(super) struct Quiet {
    pub(super) last: i64,
    /// Transactions that ran.
    pub(super) running: BTreeSet<i64>,
    pub(super) server: Server,
    pub(super) due: Option<i64>,
    pub(super) lanes: Vec<Option<String>>,
    pub(super) live: Vec<String>,
    pub(super) result: Take,
}

impl Quiet {
    /// Whether still nothing can be found.
    pub(super) fn holds(&self, beat: &Beat, now: i64, route: &str) -> bool {
        let Some(there) = beat.routes.get(route) else { return false };
        self.last == beat.still.last
            && self.server.goes_on_as(&beat.still.server)
            && !self.running.iter().any(|x| beat.snapshot.has_ended(*x))
            && self.due == there.due
            && self.due.is_none_or(|due| due > now)
            && !there.paused
            && (&self.lanes, &self.live) == (&there.lanes, &there.live)
    }
}

impl Pulse {
    /// Includes a route from now on.
    pub(super) fn listen(&self, route: &str) {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).insert(route.to_owned());
    }

    /// How many routes listen.
    pub(super) fn routes(&self) -> usize {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Feels it, or shares what was felt a moment ago for another route if nobody gave a hint; with the time of it.
    pub(super) async fn feel(inner: &Arc<Inner>) -> Result<(Arc<Beat>, i64), StoreError> {
        let pulse = &inner.pulse;
        let mut last = pulse.last.lock().await;
        let (began, hints, clock) = (Instant::now(), inner.wake.given(), inner.clock());
        let shared_for = if pulse.routes() < 2 { Duration::ZERO } else { SHARED_FOR };
        let before = last.take().filter(|felt| clock.is_none() && felt.hints == hints);
        if let Some(felt) = before.as_ref().filter(|felt| felt.began.elapsed() < shared_for) {
            let shared = (Arc::clone(&felt.beat), felt.now);
            *last = before;
            return Ok(shared);
        }
        let routes = pulse.routes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect::<Vec<_>>();
        let known = before.filter(|felt| felt.full.elapsed() < STILL_FOR && felt.beat.routes.len() == routes.len());
        let felt = inner
            .db
            .read("take", move |session| {
                Box::pin(async move {
                    if let Some(Felt { full, beat, .. }) = known {
                        let still = session.sql.query(include_str!("../sql/still.sql"));
                        let row = still.fetch_one(&mut *session.conn).await?;
                        if Still::read(&row)? == beat.still {
                            let now = row.try_get::<Time, _>("now")?.0;
                            return Ok(Felt { full, began, hints, now, beat });
                        }
                    }
                    let statement = session.sql.query(include_str!("../sql/pulse.sql"));
                    let rows = statement.bind(clock).bind(routes).fetch_all(&mut *session.conn).await?;
                    let (beat, now) = beat(&rows)?;
                    Ok(Felt { full: began, began, hints, now, beat: Arc::new(beat) })
                })
            })
            .await?;
        let found = (Arc::clone(&felt.beat), felt.now);
        *last = Some(felt);
        Ok(found)
    }
}

fn beat(rows: &[PgRow]) -> Result<(Beat, i64), sqlx::Error> {
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let mut routes = BTreeMap::new();
    for row in rows {
        let beat = RouteBeat {
            paused: row.try_get("paused")?,
            due: row.try_get::<Option<Time>, _>("due")?.map(|due| due.0),
            lanes: row.try_get("lanes")?,
            live: row.try_get("live")?,
        };
        routes.insert(row.try_get("name")?, beat);
    }
    let still = Still::read(first)?;
    let snapshot =
        Snapshot::parse(&still.snapshot, 0).ok_or_else(|| sqlx::Error::Decode("a snapshot cannot be read".into()))?;
    Ok((Beat { still, snapshot, routes }, first.try_get::<Time, _>("now")?.0))
}
