//! Reads on in the log: where the position rule meets the lanes.

use std::sync::Arc;

use sqlx::Row as _;

use super::hand::Hand;
use super::lane::Wish;
use super::leaves::Leaves;
use super::read::{self, Moment, Question};
use super::{Reader, Shared, State, own};
use crate::error::Fault;

/// Most and fewest fresh rows per lane and read.
const READ_ROWS: std::ops::RangeInclusive<usize> = 64..=1024;

impl Shared {
    /// Reads on in some lanes; says how many rows came.
    pub(super) async fn read(&self, state: &mut State, lanes: &[i16], hand: &mut Hand) -> Result<usize, Fault> {
        let rows = hand.rows().clamp(*READ_ROWS.start(), *READ_ROWS.end());
        let positions = lanes.iter().filter_map(|number| state.lanes.get(number));
        let question = Question {
            lanes: positions.map(|lane| (lane.number, lane.position.clone())).collect(),
            rows: i64::try_from(rows).unwrap_or(i64::MAX),
            inline: own::INLINE,
            clock: self.inner.clock(),
            ring: self.inner.ring,
        };
        let (sql, count) = (&self.inner.db.sql, self.inner.ring.leaves);
        let reader =
            state.reader.get_or_insert_with(|| Reader { leaves: Leaves::all(count), text: read::text(sql, 0..count) });
        let text = Arc::clone(&reader.text);
        let (moment, brought) = self
            .inner
            .db
            .attempt("take", false, move |session| Box::pin(async move { read::read(session, text, &question).await }))
            .await?;
        if !reader.leaves.has(moment.current) {
            // The clock has jumped to a leaf that was left out: what was read may not be all.
            state.reader = None;
            return Ok(1);
        }
        let wish = Wish { filter: &self.route.filter, start_at: state.start_at, now: state.now };
        let mut seen = 0;
        for one in brought {
            let Some(lane) = state.lanes.get_mut(&one.lane) else { continue };
            seen += one.rows.len();
            hand.aside.extend(lane.apply(one, wish));
        }
        self.leave_out(state, &moment).await?;
        Ok(seen)
    }

    /// Leaves leaves out that have nothing left for our lanes.
    async fn leave_out(&self, state: &mut State, moment: &Moment) -> Result<(), Fault> {
        let Some(reader) = &mut state.reader else { return Ok(()) };
        let before: Vec<i16> = reader.leaves.open().collect();
        if let Some(leaf) = reader.leaves.note(moment.current, &moment.snapshot) {
            let text = include_str!("../sql/greatest.sql").replace("{leaf}", &leaf.to_string());
            let text: Arc<str> = self.inner.db.sql.made(&text).into();
            let numbers: Vec<i16> = state.lanes.keys().copied().collect();
            let rows = self
                .inner
                .db
                .attempt("take", false, move |session| {
                    Box::pin(async move {
                        Ok(session.sql.query_made(text).bind(numbers).fetch_all(&mut *session.conn).await?)
                    })
                })
                .await?;
            let number =
                |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get::<Option<i64>, _>(1)?.unwrap_or(0)));
            reader.leaves.learn(leaf, rows.iter().map(number).collect::<Result<_, sqlx::Error>>()?);
        }
        let positions: Vec<_> = state.lanes.values().map(|lane| (lane.number, &lane.position)).collect();
        reader.leaves.drop_done(&positions);
        if !reader.leaves.open().eq(before) {
            reader.text = read::text(&self.inner.db.sql, reader.leaves.open());
        }
        Ok(())
    }
}
