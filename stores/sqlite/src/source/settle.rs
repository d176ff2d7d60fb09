//! Makes verdicts durable, with the position, in one fenced transaction.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{Failure, OnDead, OnFailure, Ownership, Ranges, RouteSpec, Settlement, StoreError, Verdict};
use serde_json::{Map, Value, json};
use sqlx::{Row, SqliteConnection};

use super::checkpoint::{Checkpoint, ranges_text};
use super::{Shared, lane};
use crate::clock::span;
use crate::error::Fault;
use crate::events::maybe_text;
use crate::release::{block_again, release};

/// How far the ranges of one receipt may begin from its first number.
const RECEIPT_SPAN: i64 = 1_000;

/// One verdict with what memory knows of its delivery.
struct Item {
    handle: i64,
    key: Option<Arc<str>>,
    verdict: Verdict,
    took: Duration,
}

/// Sums of a settle.
#[derive(Default)]
struct Sums {
    recovered: i64,
    replayed: i64,
    delivered: i64,
    retried: i64,
    dead: i64,
    // First deliveries that got through, with the destination's words where it had any.
    receipts: Ranges,
    coordinates: Map<String, Value>,
}

impl Shared {
    pub(super) async fn settle(&self, settlements: Vec<Settlement>) -> Result<Ownership, StoreError> {
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        let state = &mut *guard;
        self.resolve(state).await?;
        let (term, position) = match &state.owned {
            Some(owned) => (owned.term, owned.position.clone()),
            None => (0, Checkpoint::default()),
        };
        let mut lost = Vec::new();
        let mut items = Vec::new();
        for settlement in settlements {
            if settlement.lane.term == term {
                let key = state.out.get(&settlement.handle).cloned().flatten();
                let Settlement { handle, verdict, took, .. } = settlement;
                items.push(Item { handle, key, verdict, took });
            } else if !lost.contains(&settlement.lane) {
                lost.push(settlement.lane);
            }
        }
        if state.owned.is_none() || items.is_empty() {
            return Ok(Ownership { lanes: usize::from(state.owned.is_some()), lost, ..Ownership::default() });
        }
        // What failed goes before what is given back: the one may have to wait behind the other.
        items.sort_by_key(|item| (item.verdict == Verdict::Returned, item.handle));
        let handles: Vec<i64> = items.iter().map(|item| item.handle).collect();
        let (route, boot, now) = (Arc::clone(&self.route), self.relay.boot.clone(), self.inner.now());
        let tried = Arc::new(Mutex::new(None));
        let trying = Arc::clone(&tried);
        let written = self
            .inner
            .db
            .write("settle", move |conn| {
                Box::pin(async move {
                    if !lane::is_ours(conn, &route.name, &boot, term).await? {
                        return Ok(None);
                    }
                    let mut work = SettleRun { conn, route: &route, now, position, sums: Sums::default() };
                    for item in items {
                        work.settle(item).await?;
                    }
                    let position = work.finish().await?;
                    *trying.lock().unwrap_or_else(PoisonError::into_inner) = Some(position.clone());
                    let lane = lane::look(conn, &route.name, &boot, now).await?;
                    Ok(Some((position, lane.paused)))
                })
            })
            .await;
        match written {
            Ok(Some((position, paused))) => {
                if let Some(owned) = &mut state.owned {
                    owned.position = position;
                    owned.unwritten_since = None;
                }
                state.idle = None;
                for handle in handles {
                    state.out.remove(&handle);
                }
                Ok(Ownership { paused, lanes: 1, lost, ..Ownership::default() })
            }
            Ok(None) => {
                self.lose(state);
                lost.append(&mut state.lost);
                Ok(Ownership { lost, ..Ownership::default() })
            }
            Err(error) => {
                state.unsure = tried.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(error)
            }
        }
    }
}

/// Numbers of one settle in groups that do not span far, so that a receipt is found by where it begins.
fn groups(numbers: &Ranges) -> Vec<Ranges> {
    let mut groups: Vec<Vec<(i64, i64)>> = Vec::new();
    for range in numbers.iter() {
        match groups.last_mut() {
            Some(group) if range.0 - group[0].0 <= RECEIPT_SPAN => group.push(range),
            _ => groups.push(vec![range]),
        }
    }
    groups.into_iter().map(|group| group.into_iter().collect()).collect()
}

/// Run of a settle on a connection.
struct SettleRun<'w> {
    conn: &'w mut SqliteConnection,
    route: &'w RouteSpec,
    now: i64,
    position: Checkpoint,
    sums: Sums,
}

/// A parked row before its verdict.
struct ParkedRow {
    handle: i64,
    seq: i64,
    key: Option<String>,
    blocks: bool,
    round: i64,
    dead: bool,
    /// Replay that made it due.
    replay: Option<String>,
}

/// A failure on its way into the tables.
struct Failed<'f> {
    state: &'static str,
    due: Option<i64>,
    attempts: u32,
    failure: &'f Failure,
    /// Whether later events of the key wait for it, if it keeps their order at all.
    blocks: bool,
}

impl SettleRun<'_> {
    async fn settle(&mut self, item: Item) -> Result<(), Fault> {
        // A number that is not unsettled has its outcome already: this settle is repeated.
        if item.handle > 0 && !self.position.unsettled.contains(item.handle) {
            return Ok(());
        }
        match &item.verdict {
            Verdict::Delivered(receipt) => self.delivered(item.handle, receipt.place.as_deref()).await,
            Verdict::Retry { attempts, after, failure } => {
                let due = Some(self.now.saturating_add(span(*after)));
                let blocks = self.route.on_failure == OnFailure::Block;
                let failed = Failed { state: "retrying", due, attempts: *attempts, failure, blocks };
                self.failed(&item, &failed).await
            }
            Verdict::Dead { attempts, failure, .. } => {
                let blocks = self.route.on_dead == OnDead::Hold;
                let failed = Failed { state: "dead", due: None, attempts: *attempts, failure, blocks };
                self.failed(&item, &failed).await
            }
            Verdict::Returned => self.returned(&item).await,
        }
    }

    async fn delivered(&mut self, handle: i64, receipt: Option<&str>) -> Result<(), Fault> {
        if handle > 0 {
            self.position.unsettled.remove(handle);
            self.position.delivered += 1;
            self.sums.delivered += 1;
            self.sums.receipts.insert(handle);
            if let Some(words) = receipt {
                self.sums.coordinates.insert(handle.to_string(), json!(words));
            }
            return Ok(());
        }
        let row =
            sqlx::query(include_str!("../sql/delivered.sql")).bind(-handle).fetch_optional(&mut *self.conn).await?;
        // Gone already: settled before, or discarded by an operator meanwhile.
        let Some(row) = row else { return Ok(()) };
        let (seq, key): (i64, _) = (row.try_get("seq")?, maybe_text(&row, "key")?);
        self.sums.delivered += 1;
        let is_replay: bool = row.try_get("replay")?;
        *(if is_replay { &mut self.sums.replayed } else { &mut self.sums.recovered }) += 1;
        let replay: Option<String> = row.try_get("replayed_by")?;
        let coordinates = receipt.map(|words| (seq.to_string(), json!(words))).into_iter().collect();
        self.receipt(&[(seq, seq)].into_iter().collect(), &coordinates, replay.as_deref()).await?;
        if let (true, Some(key)) = (row.try_get("blocks")?, key) {
            release(self.conn, &self.route.name, &key, self.now).await?;
        }
        Ok(())
    }

    async fn failed(&mut self, item: &Item, failed: &Failed<'_>) -> Result<(), Fault> {
        let row = if item.handle > 0 { self.park(item, failed).await? } else { self.park_again(item, failed).await? };
        let Some(row) = row else { return Ok(()) };
        self.attempt(&row, item, failed).await?;
        match &row.key {
            Some(key) if row.blocks && failed.blocks && !row.dead => {
                block_again(self.conn, &self.route.name, key, row.seq, self.now).await?;
            }
            Some(key) if row.blocks => release(self.conn, &self.route.name, key, self.now).await?,
            _ => {}
        }
        Ok(())
    }

    /// A first delivery that failed gets a row of its own.
    async fn park(&mut self, item: &Item, failed: &Failed<'_>) -> Result<Option<ParkedRow>, Fault> {
        let (seq, key) = (item.handle, item.key.as_deref());
        self.position.unsettled.remove(seq);
        self.position.parked += 1;
        let row = sqlx::query(include_str!("../sql/park.sql"))
            .bind(&self.route.name)
            .bind(seq)
            .bind(key)
            .bind(failed.state)
            .bind(failed.blocks && key.is_some())
            .bind(failed.due)
            .bind(failed.attempts)
            .bind(&*failed.failure.code)
            .bind(&failed.failure.error)
            .bind(self.now)
            .fetch_one(&mut *self.conn)
            .await?;
        Ok(Some(ParkedRow {
            handle: row.try_get("handle")?,
            seq,
            key: key.map(str::to_owned),
            blocks: failed.blocks && key.is_some(),
            round: row.try_get("round")?,
            dead: false,
            replay: None,
        }))
    }

    /// A row that failed again. One that an operator gave up meanwhile stays dead.
    async fn park_again(&mut self, item: &Item, failed: &Failed<'_>) -> Result<Option<ParkedRow>, Fault> {
        let row =
            sqlx::query(include_str!("../sql/parked.sql")).bind(-item.handle).fetch_optional(&mut *self.conn).await?;
        let Some(row) = row else { return Ok(None) };
        let dead = row.try_get::<&str, _>("state")? == "dead";
        let row = ParkedRow {
            handle: -item.handle,
            seq: row.try_get("seq")?,
            key: maybe_text(&row, "key")?.map(Cow::into_owned),
            blocks: row.try_get("blocks")?,
            round: row.try_get("round")?,
            dead,
            replay: row.try_get("replayed_by")?,
        };
        sqlx::query(include_str!("../sql/park_again.sql"))
            .bind(row.handle)
            .bind(failed.state)
            .bind(failed.blocks)
            .bind(failed.due)
            .bind(failed.attempts)
            .bind(&*failed.failure.code)
            .bind(&failed.failure.error)
            .bind(self.now)
            .execute(&mut *self.conn)
            .await?;
        Ok(Some(row))
    }

    async fn attempt(&mut self, row: &ParkedRow, item: &Item, failed: &Failed<'_>) -> Result<(), Fault> {
        let new = sqlx::query(include_str!("../sql/attempt.sql"))
            .bind(row.handle)
            .bind(row.round)
            .bind(failed.attempts)
            .bind(&self.route.name)
            .bind(row.seq)
            .bind(self.now)
            .bind(json!(failed.failure.kind).as_str())
            .bind(&*failed.failure.code)
            .bind(&failed.failure.error)
            .bind(i64::try_from(item.took.as_millis()).unwrap_or(i64::MAX))
            .bind(json!(failed.failure.handlers).to_string())
            .bind(row.replay.as_deref())
            .execute(&mut *self.conn)
            .await?
            .rows_affected();
        if new == 1 {
            *(if failed.due.is_some() { &mut self.sums.retried } else { &mut self.sums.dead }) += 1;
        }
        Ok(())
    }

    /// One given back stays where it was, unless its key is blocked: then it waits there.
    async fn returned(&mut self, item: &Item) -> Result<(), Fault> {
        let (true, Some(key)) = (item.handle > 0, item.key.as_deref()) else { return Ok(()) };
        let parked = sqlx::query(include_str!("../sql/park_returned.sql"))
            .bind(&self.route.name)
            .bind(item.handle)
            .bind(key)
            .bind(self.now)
            .execute(&mut *self.conn)
            .await?
            .rows_affected();
        if parked == 1 {
            self.position.unsettled.remove(item.handle);
            self.position.parked += 1;
            // The key may have gone on since, up to those that are later than this one.
            if !faults::is(Old::GivenBackIsOvertaken) {
                block_again(self.conn, &self.route.name, key, item.handle, self.now).await?;
            }
            release(self.conn, &self.route.name, key, self.now).await?;
        }
        Ok(())
    }

    async fn receipt(
        &mut self,
        ranges: &Ranges,
        coordinates: &Map<String, Value>,
        replay: Option<&str>,
    ) -> Result<(), Fault> {
        let Some(first) = ranges.iter().next().map(|(first, _)| first) else { return Ok(()) };
        let last = ranges.iter().last().map_or(first, |(_, last)| last);
        sqlx::query(include_str!("../sql/receipt.sql"))
            .bind(&self.route.name)
            .bind(first)
            .bind(last)
            .bind(ranges_text(ranges))
            .bind(json!(coordinates).to_string())
            .bind(self.now)
            .bind(replay)
            .execute(&mut *self.conn)
            .await?;
        Ok(())
    }

    /// Writes the receipt, the minute's sums and the position, which it returns.
    async fn finish(mut self) -> Result<Checkpoint, Fault> {
        let mut sums = std::mem::take(&mut self.sums);
        for group in groups(&sums.receipts) {
            let numbers = group.numbers().map(|seq| seq.to_string());
            let coordinates = numbers.filter_map(|seq| sums.coordinates.remove_entry(&seq)).collect();
            self.receipt(&group, &coordinates, None).await?;
        }
        if sums.delivered + sums.retried + sums.dead > 0 {
            sqlx::query(include_str!("../sql/stat.sql"))
                .bind(&self.route.name)
                .bind(self.now - self.now.rem_euclid(60_000_000))
                .bind(sums.delivered)
                .bind(sums.retried)
                .bind(sums.dead)
                .execute(&mut *self.conn)
                .await?;
        }
        self.position.save(self.conn, &self.route.name, sums.recovered, sums.replayed).await?;
        Ok(self.position)
    }
}
