//! Lanes as operators see them: where each has got to, and the lock under which deliveries are changed.

use std::collections::BTreeSet;

use postroom_admin::view::Counts;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::database::Session;
use crate::error::Fault;
use crate::events::count;
use crate::routes;
use crate::source::position::Position;
use crate::source::unsettled::parse_ranges;

/// One lane of a route, at its newest checkpoint.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) number: i16,
    /// The boot that holds it.
    pub(super) holder: Option<String>,
    /// The name of that relay.
    pub(super) relay: Option<String>,
    pub(super) term: i64,
    start_hwm: i64,
    start_pending: Vec<i64>,
    pub(super) position: Position,
    /// In order; both ends are included.
    unsettled: Vec<(i64, i64)>,
    pub(super) counts: Counts,
}

impl Lane {
    fn read(row: &PgRow) -> Result<Self, Fault> {
        let Some(hwm) = row.try_get::<Option<i64>, _>("hwm")? else {
            return Err(routes::no_checkpoint(row.try_get("route")?).into());
        };
        let (pending, los): (Vec<i64>, Vec<i64>) = (row.try_get("pending")?, row.try_get("los")?);
        let unsettled = parse_ranges(row.try_get("unsettled")?)
            .ok_or_else(|| sqlx::Error::Decode("unsettled ranges cannot be read".into()))?;
        Ok(Self {
            number: row.try_get("lane")?,
            holder: row.try_get("holder")?,
            relay: row.try_get("relay")?,
            term: row.try_get("term")?,
            start_hwm: row.try_get("start_hwm")?,
            start_pending: row.try_get("start_pending")?,
            position: Position { hwm, pending: pending.into_iter().zip(los).collect(), drawn: 0 },
            unsettled,
            counts: counts(row)?,
        })
    }

    /// Whether the row was there before the route began.
    pub(super) fn began_after(&self, tx: i64, seq: i64) -> bool {
        seq <= self.start_hwm && !self.start_pending.contains(&tx)
    }

    /// Whether the row has been read and has its outcome.
    pub(super) fn is_settled(&self, tx: i64, seq: i64) -> bool {
        let after = self.unsettled.partition_point(|(first, _)| *first <= seq);
        let open = after.checked_sub(1).is_some_and(|before| seq <= self.unsettled[before].1);
        !open && !self.position.is_unseen(tx, seq)
    }

    /// The first number that has been read and has no outcome.
    pub(super) fn first_unsettled(&self) -> Option<i64> {
        self.unsettled.first().map(|(first, _)| *first)
    }

    /// How many have been read and have no outcome, by the counts: counting the rows is the verification's work.
    pub(super) fn unsettled(&self) -> u64 {
        let Counts { seen, delivered, filtered, parked, .. } = self.counts;
        seen.saturating_sub(delivered + filtered + parked)
    }
}

/// The counts of a lane and its checkpoint.
pub(super) fn counts(row: &PgRow) -> Result<Counts, sqlx::Error> {
    let get = |column| row.try_get(column).map(count);
    Ok(Counts {
        base: get("base")?,
        seen: get("seen")?,
        delivered: get("delivered")?,
        filtered: get("filtered")?,
        parked: get("parked")?,
        recovered: get("recovered")?,
        replayed: get("replayed")?,
        discarded: get("discarded")?,
    })
}

/// The lanes of a route, in order.
pub(super) async fn of(session: &mut Session, route: &str) -> Result<Vec<Lane>, Fault> {
    let rows = session.sql.query(include_str!("../sql/lanes.sql")).bind(route.to_owned());
    let rows = rows.fetch_all(&mut *session.conn).await?;
    if rows.is_empty() {
        return Err(routes::no_checkpoint(route).into());
    }
    rows.iter().map(Lane::read).collect()
}

/// Locks the lanes of some deliveries (their handles) against everybody else who changes deliveries of theirs.
pub(super) async fn lock_deliveries(session: &mut Session, handles: &[i64]) -> Result<(), sqlx::Error> {
    let lock = session.sql.query(include_str!("../sql/lock_deliveries.sql")).bind(handles.to_vec());
    lock.execute(&mut *session.conn).await.map(drop)
}

/// Locks lanes of routes against everybody else who changes deliveries of theirs.
pub(super) async fn lock(session: &mut Session, lanes: &BTreeSet<(String, i16)>) -> Result<(), sqlx::Error> {
    let (routes, numbers): (Vec<String>, Vec<i16>) = lanes.iter().cloned().unzip();
    let lock = session.sql.query(include_str!("../sql/lock_lanes.sql")).bind(routes).bind(numbers);
    lock.execute(&mut *session.conn).await.map(drop)
}

/// Locks all lanes of a route.
pub(super) async fn lock_all(session: &mut Session, route: &str) -> Result<(), sqlx::Error> {
    let lock = session.sql.query("select lane from postroom.lane where route = $1 order by lane for no key update");
    lock.bind(route.to_owned()).execute(&mut *session.conn).await.map(drop)
}

/// Locks the lane of a key.
pub(super) async fn lock_key(session: &mut Session, route: &str, key: &str, lanes: i16) -> Result<(), sqlx::Error> {
    let lock = session.sql.query(
        "select lane from postroom.lane \
         where route = $1 and lane = (hashtextextended($2, 0) & 9223372036854775807) % $3 for no key update",
    );
    lock.bind(route.to_owned()).bind(key.to_owned()).bind(lanes).execute(&mut *session.conn).await.map(drop)
}
