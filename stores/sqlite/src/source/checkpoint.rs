//! A lane's position and counts, in memory and in the table.

use std::fmt::Write as _;

use postroom_core::Ranges;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

/// Everything up to `hwm` has been seen; `unsettled` are the numbers among it that have no outcome yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// How often it was written: tells after a lost answer whether a write happened.
    pub(crate) writes: i64,
    pub(crate) hwm: i64,
    pub(crate) unsettled: Ranges,
    pub(crate) seen: i64,
    pub(crate) delivered: i64,
    pub(crate) filtered: i64,
    pub(crate) parked: i64,
}

impl Checkpoint {
    /// Reads a row of the table.
    pub(crate) fn read(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            writes: row.try_get("writes")?,
            hwm: row.try_get("hwm")?,
            unsettled: parse_ranges(row.try_get("unsettled")?)?,
            seen: row.try_get("seen")?,
            delivered: row.try_get("delivered")?,
            filtered: row.try_get("filtered")?,
            parked: row.try_get("parked")?,
        })
    }

    /// Writes it as the next one of its lane. The caller has fenced the transaction.
    pub(super) async fn save(
        &mut self,
        conn: &mut SqliteConnection,
        route: &str,
        recovered: i64,
        replayed: i64,
    ) -> Result<(), sqlx::Error> {
        self.writes += 1;
        sqlx::query(include_str!("../sql/checkpoint.sql"))
            .bind(route)
            .bind(self.writes)
            .bind(self.hwm)
            .bind(ranges_text(&self.unsettled))
            .bind(self.seen)
            .bind(self.delivered)
            .bind(self.filtered)
            .bind(self.parked)
            .bind(recovered)
            .bind(replayed)
            .execute(conn)
            .await
            .map(drop)
    }
}

/// `[[1,4],[7,7]]`
pub(crate) fn ranges_text(ranges: &Ranges) -> String {
    let mut text = String::from("[");
    for (first, last) in ranges.iter() {
        if text.len() > 1 {
            text.push(',');
        }
        let _ = write!(text, "[{first},{last}]");
    }
    text.push(']');
    text
}

/// The ranges of such a text.
pub(crate) fn parse_ranges(text: &str) -> Result<Ranges, sqlx::Error> {
    let pairs: Vec<(i64, i64)> = serde_json::from_str(text).map_err(|e| sqlx::Error::Decode(e.into()))?;
    Ok(pairs.into_iter().collect())
}
