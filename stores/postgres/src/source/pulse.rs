//! Is there anything to look for? One small statement for all routes of a store, instead of a look by each.
//!
//! A look found nothing. Until a number is drawn, a transaction that ran then ends, something becomes due, or somebody
//! changes a lane, a route or a relay, there is nothing to find: whoever holds a number took its transaction id first, so it
//! was running then, or was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use postroom_core::{StoreError, Take};
use sqlx::Row as _;
use tokio::sync::Mutex;

use super::position::Snapshot;
use super::standing::Server;
use crate::clock::Time;
use crate::store::Inner;

/// How old an answer may be that several routes share.
const SHARED_FOR: Duration = Duration::from_millis(20);

/// The pulse of a store.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    routes: SyncMutex<BTreeSet<String>>,
    last: Mutex<Option<Felt>>,
}

#[derive(Debug)]
struct Felt {
    began: Instant,
    hints: u64,
    beat: Arc<Beat>,
}

/// What one statement said.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) now: i64,
    last: i64,
    snapshot: Snapshot,
    server: Server,
    routes: BTreeMap<String, RouteBeat>,
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
    pub(super) paused: bool,
    pub(super) due: Option<i64>,
    pub(super) lanes: Vec<Option<String>>,
    pub(super) live: Vec<String>,
    pub(super) result: Take,
}

impl Quiet {
    /// Whether still nothing can be found.
    pub(super) fn holds(&self, beat: &Beat, route: &str) -> bool {
        let Some(there) = beat.routes.get(route) else { return false };
        self.last == beat.last
            && self.server.goes_on_as(&beat.server)
            && !self.running.iter().any(|x| beat.snapshot.has_ended(*x))
            && self.due == there.due
            && self.due.is_none_or(|due| due > beat.now)
            && (self.paused, &self.lanes, &self.live) == (there.paused, &there.lanes, &there.live)
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

    /// Feels it, or shares what was felt a moment ago if nobody gave a hint since.
    pub(super) async fn feel(inner: &Arc<Inner>) -> Result<Arc<Beat>, StoreError> {
        let pulse = &inner.pulse;
        let mut last = pulse.last.lock().await;
        let (began, hints, clock) = (Instant::now(), inner.wake.given(), inner.clock());
        if let Some(felt) = &*last
            && clock.is_none()
            && felt.hints == hints
            && felt.began.elapsed() < SHARED_FOR
        {
            return Ok(Arc::clone(&felt.beat));
        }
        let routes = pulse.routes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect::<Vec<_>>();
        let rows = inner
            .db
            .read("take", move |session| {
                Box::pin(async move {
                    let statement = session.sql.query(include_str!("../sql/pulse.sql"));
                    Ok(statement.bind(clock).bind(routes).fetch_all(&mut *session.conn).await?)
                })
            })
            .await?;
        let beat = beat(&rows).map_err(|e| crate::error::Fault::from(e).at("take", &inner.db.place))?;
        let beat = Arc::new(beat);
        *last = Some(Felt { began, hints, beat: Arc::clone(&beat) });
        Ok(beat)
    }
}

fn beat(rows: &[sqlx::postgres::PgRow]) -> Result<Beat, sqlx::Error> {
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
    Ok(Beat {
        now: first.try_get::<Time, _>("now")?.0,
        last: first.try_get("last")?,
        snapshot: Snapshot::parse(first.try_get("snap")?, 0)
            .ok_or_else(|| sqlx::Error::Decode("a snapshot cannot be read".into()))?,
        server: Server::read(first)?,
        routes,
    })
}
