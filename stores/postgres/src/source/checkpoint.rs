//! Lanes as the table of checkpoints has them.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::lane::{Counts, Lane};
use super::position::Position;
use super::receipts::Receipts;
use super::unsettled::{Unsettled, parse_ranges};
use crate::clock::Time;
use crate::database::Session;
use crate::schema::Partitioning;
use crate::sql::array;

/// One lane's row, about to be written.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    pub(super) lane: i16,
    pub(super) term: i64,
    position: Position,
    pub(super) unsettled: Unsettled,
    pub(super) counts: Counts,
}

impl Checkpoint {
    pub(super) fn of(lane: &Lane) -> Self {
        Self {
            lane: lane.number,
            term: lane.term,
            position: lane.position.clone(),
            unsettled: lane.unsettled.clone(),
            counts: lane.counts,
        }
    }
}

/// Who writes, where and when.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) route: String,
    pub(super) boot: String,
    pub(super) clock: Option<Time>,
    pub(super) partitioning: Partitioning,
    /// When the server was started that positions were read from.
    pub(super) started: Option<Time>,
}

/// What came of a write.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// Lanes that were still ours.
    pub(super) lanes: Vec<i16>,
    /// Whether the route is paused.
    pub(super) paused: bool,
}

/// Writes checkpoints and receipts in one statement.
pub(super) async fn save(
    session: &mut Session,
    writer: &Writer,
    checkpoints: &[Checkpoint],
    receipts: Receipts,
) -> Result<Saved, sqlx::Error> {
    fn column<T>(all: &[Checkpoint], of: impl Fn(&Checkpoint) -> T) -> Vec<T> {
        all.iter().map(of).collect()
    }
    let rows = session
        .sql
        .query(include_str!("../sql/checkpoint.sql"))
        .bind(writer.route.clone())
        .bind(writer.boot.clone())
        .bind(writer.clock)
        .bind(writer.partitioning.segment)
        .bind(writer.partitioning.partitions)
        .bind(column(checkpoints, |c| c.lane))
        .bind(column(checkpoints, |c| c.term))
        .bind(column(checkpoints, |c| c.position.hwm))
        .bind(column(checkpoints, |c| array(c.position.pending.keys())))
        .bind(column(checkpoints, |c| array(c.position.pending.values())))
        .bind(column(checkpoints, |c| c.unsettled.to_text()))
        .bind(column(checkpoints, |c| c.counts.base))
        .bind(column(checkpoints, |c| c.counts.seen))
        .bind(column(checkpoints, |c| c.counts.delivered))
        .bind(column(checkpoints, |c| c.counts.filtered))
        .bind(column(checkpoints, |c| c.counts.parked))
        .bind(column(checkpoints, |c| c.counts.recovered))
        .bind(column(checkpoints, |c| c.counts.replayed))
        .bind(receipts.lanes)
        .bind(receipts.firsts)
        .bind(receipts.lasts)
        .bind(receipts.ranges)
        .bind(receipts.coordinates)
        .bind(receipts.replays)
        .bind(writer.started)
        .fetch_all(&mut *session.conn)
        .await?;
    let mut saved = Saved::default();
    for row in &rows {
        saved.lanes.push(row.try_get(0)?);
        saved.paused |= row.try_get::<bool, _>(1)?;
    }
    Ok(saved)
}

/// A lane out of the row of its newest checkpoint, with the ranges of what is unsettled.
pub(super) fn lane(row: &PgRow) -> Result<(Lane, Vec<(i64, i64)>), sqlx::Error> {
    let (pending, los): (Vec<i64>, Vec<i64>) = (row.try_get("pending")?, row.try_get("los")?);
    let pending: BTreeMap<i64, i64> = pending.into_iter().zip(los).collect();
    let position = Position { hwm: row.try_get("hwm")?, pending, drawn: 0 };
    let counts = Counts {
        base: row.try_get("base")?,
        seen: row.try_get("seen")?,
        delivered: row.try_get("delivered")?,
        filtered: row.try_get("filtered")?,
        parked: row.try_get("parked")?,
        recovered: row.try_get("recovered")?,
        replayed: row.try_get("replayed")?,
    };
    let text: &str = row.try_get("unsettled")?;
    let ranges = parse_ranges(text).ok_or_else(|| sqlx::Error::Decode(format!("{text:?} are no ranges").into()))?;
    Ok((Lane::taken(row.try_get("lane")?, row.try_get("term")?, position, counts), ranges))
}
