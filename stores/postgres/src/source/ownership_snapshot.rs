//! How a route stands in the tables: whose its lanes are, who lives, what is due.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::clock::Time;
use crate::database::Session;
use crate::error::Fault;
use crate::routes;

/// The server a statement ran on, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Server {
    started: i64,
    wal: i64,
}

impl Server {
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { started: row.try_get::<Time, _>("started")?.0, wal: row.try_get("wal")? })
    }

    /// When it was started.
    pub(super) fn started(&self) -> Time {
        Time(self.started)
    }

    /// Whether this is the server that was started then.
    pub(super) fn is(&self, started: i64) -> bool {
        self.started == started
    }

    /// Whether a later statement still ran on the server that this one ran on: not another one, not restarted, and with
    /// everything that had been written.
    pub(super) fn goes_on_as(&self, later: &Self) -> bool {
        self.started == later.started && self.wal <= later.wal
    }
}

/// One lane as the table has it.
#[derive(Debug, Clone)]
pub(super) struct LaneRow {
    pub(super) lane: i16,
    pub(super) holder: Option<String>,
    term: i64,
    /// Whether its holder lives.
    pub(super) held: bool,
    /// When the first parked delivery is due.
    pub(super) due: Option<i64>,
}

impl LaneRow {
    /// Whether this relay holds it under this term.
    pub(super) fn is(&self, lane: i16, boot: &str, term: i64) -> bool {
        self.lane == lane && self.term == term && self.holder.as_deref() == Some(boot)
    }
}

/// A route as the tables have it.
#[derive(Debug)]
pub(super) struct OwnershipSnapshot {
    pub(super) now: i64,
    pub(super) lanes: Vec<LaneRow>,
    pub(super) paused: bool,
    /// When an operator last asked to try the destination now.
    pub(super) probe_at: Option<i64>,
    /// Boot ids of live relays that serve the route.
    pub(super) live: Vec<String>,
    pub(super) retrying: bool,
    /// The last number drawn before this statement looked.
    pub(super) last: i64,
    pub(super) server: Server,
}

impl OwnershipSnapshot {
    /// Lanes and terms in one text each, as `change_probe` has them.
    pub(super) fn marks(&self) -> Vec<Option<String>> {
        self.lanes.iter().map(|row| row.holder.as_ref().map(|holder| format!("{holder} {}", row.term))).collect()
    }
}

/// Looks.
pub(super) async fn look(session: &mut Session, route: &str, clock: Option<Time>) -> Result<OwnershipSnapshot, Fault> {
    let statement = session.sql.query(include_str!("../sql/ownership.sql")).bind(clock).bind(route.to_owned());
    let rows = statement.fetch_all(&mut *session.conn).await?;
    let Some(first) = rows.first() else { return Err(routes::not_registered(route, "take").into()) };
    let mut lanes = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(lane) = row.try_get("lane")? else { return Err(routes::no_checkpoint(route).into()) };
        lanes.push(LaneRow {
            lane,
            holder: row.try_get("holder")?,
            term: row.try_get("term")?,
            held: row.try_get::<Option<bool>, _>("held")?.unwrap_or(false),
            due: row.try_get::<Option<Time>, _>("due")?.map(|due| due.0),
        });
    }
    Ok(OwnershipSnapshot {
        now: first.try_get::<Time, _>("now")?.0,
        lanes,
        paused: first.try_get("paused")?,
        probe_at: first.try_get::<Option<Time>, _>("probe_at")?.map(|at| at.0),
        live: first.try_get("live")?,
        retrying: first.try_get("retrying")?,
        last: first.try_get("last")?,
        server: Server::read(first)?,
    })
}
