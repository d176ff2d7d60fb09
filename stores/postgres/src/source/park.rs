//! Writes what a take parked, with the positions of its lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_core::StoreError;

use super::checkpoint::{self, Checkpoint, Writer};
use super::lane::Parked;
use super::receipts::Receipts;
use super::{Shared, State};
use crate::clock::{Time, span};
use crate::database::{Kind, Session};
use crate::error::Fault;
use crate::release::{block_again, release};

/// How long a position that only moved may stay unwritten: what a crash makes the next owner read again.
const UNWRITTEN_MAX: Duration = Duration::from_secs(1);

impl Shared {
    /// Writes what was parked with the positions of its lanes, and positions that were long unwritten.
    pub(super) async fn write(&self, state: &mut State, parked: Vec<Parked>) -> Result<(), StoreError> {
        let touched: BTreeSet<i16> = parked.iter().map(|one| one.lane).collect();
        let old = |since: i64| state.now - since >= span(UNWRITTEN_MAX);
        let stale = state.lanes.values().any(|lane| lane.unwritten_since.is_some_and(old));
        if touched.is_empty() && !stale {
            return Ok(());
        }
        let _writing = Arc::clone(&self.writing).lock_owned().await;
        self.absorb(state);
        let parked: Vec<Parked> = parked.into_iter().filter(|one| state.lanes.contains_key(&one.lane)).collect();
        let due = |lane: &&super::Lane| touched.contains(&lane.number) || lane.unwritten_since.is_some();
        let checkpoints: Vec<Checkpoint> = state.lanes.values().filter(due).map(Checkpoint::of).collect();
        let writer = self.writer(state);
        let kind = if parked.is_empty() { Kind::Statements } else { Kind::Transaction };
        let waiting: Vec<(i16, String)> = parked
            .iter()
            .filter(|one| one.due.is_none())
            .filter_map(|one| Some((one.lane, one.key.clone()?)))
            .collect();
        let tried = checkpoints.clone();
        let done = self
            .inner
            .db
            .attempt("take", kind, move |session| {
                Box::pin(async move { park_rows(session, &writer, &tried, parked).await })
            })
            .await;
        let written = done.map_err(|fault| {
            // Memory has moved past what could not be written.
            self.lose_all(state);
            fault.at("take", &self.inner.db.place)
        })?;
        for (number, key) in waiting {
            if let Some(lane) = state.lanes.get_mut(&number) {
                lane.blocks(&key);
            }
        }
        for checkpoint in checkpoints {
            if !written.contains(&checkpoint.lane) {
                self.lose(state, checkpoint.lane);
            } else if let Some(lane) = state.lanes.get_mut(&checkpoint.lane) {
                lane.unwritten_since = None;
            }
        }
        Ok(())
    }
}

fn column<T>(all: &[Parked], of: impl Fn(&Parked) -> T) -> Vec<T> {
    all.iter().map(of).collect()
}

/// Writes checkpoints with what was parked. Says which lanes were still ours.
async fn park_rows(
    session: &mut Session,
    writer: &Writer,
    checkpoints: &[Checkpoint],
    parked: Vec<Parked>,
) -> Result<Vec<i16>, Fault> {
    if parked.is_empty() {
        return Ok(checkpoint::save(session, writer, checkpoints, Receipts::default()).await?.lanes);
    }
    let fenced = super::settle::fence(session, writer, checkpoints).await?;
    let ours: Vec<Checkpoint> = checkpoints.iter().filter(|c| fenced.lanes.contains(&c.lane)).cloned().collect();
    let parked: Vec<Parked> = parked.into_iter().filter(|one| fenced.lanes.contains(&one.lane)).collect();
    session
        .sql
        .query(include_str!("../sql/park.sql"))
        .bind(writer.route.clone())
        .bind(Time(fenced.now))
        .bind(column(&parked, |a| a.lane))
        .bind(column(&parked, |a| a.seq))
        .bind(column(&parked, |a| a.key.clone()))
        .bind(column(&parked, |a| if a.due.is_some() { "delayed" } else { "blocked" }))
        .bind(column(&parked, |a| a.due.is_none()))
        .bind(column(&parked, |a| a.due.map(Time)))
        .bind(vec![0_i32; parked.len()])
        .bind(vec![None::<String>; parked.len()])
        .bind(vec![None::<String>; parked.len()])
        .execute(&mut *session.conn)
        .await?;
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    for (key, seq) in parked.into_iter().filter(|one| one.due.is_none()).filter_map(|one| Some((one.key?, one.seq))) {
        let first = first.entry(key).or_insert(seq);
        *first = seq.min(*first);
    }
    let (keys, first): (Vec<String>, Vec<(String, i64)>) = first.into_iter().map(|one| (one.0.clone(), one)).unzip();
    // What they wait for may have gone since the look, and the key have gone on up to later ones.
    block_again(session, &writer.route, &first, fenced.now).await?;
    release(session, &writer.route, &keys, fenced.now).await?;
    Ok(checkpoint::save(session, writer, &ours, Receipts::default()).await?.lanes)
}
