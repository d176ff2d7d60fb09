//! Takes: looks who owns what, hands out what is due, reads on, and puts aside what cannot go yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Budget, Standing, StoreError, Take, share_lanes};
use sqlx::Row as _;

use super::checkpoint::{self, Checkpoint, Receipts, Writer};
use super::hand::{self, Hand};
use super::lane::{Aside, Wish};
use super::leaves::Leaves;
use super::pulse::{Pulse, Quiet};
use super::read::{self, Moment, Question};
use super::standing::{self, Found};
use super::{Reader, Shared, State, own};
use crate::clock::{Time, duration, span};
use crate::database::Session;
use crate::error::Fault;
use crate::events::signed;
use crate::release::release;

/// Most rows of the log that one take decides about; the rest is for the next one.
pub(super) const ROWS_MAX: usize = 20_000;
/// Most and fewest fresh rows per lane and read.
const READ_ROWS: std::ops::RangeInclusive<usize> = 64..=1024;
/// How long a position that only moved may stay unwritten: what a crash makes the next owner read again.
const UNWRITTEN_MAX: Duration = Duration::from_secs(1);

impl Shared {
    pub(super) async fn take(self: &Arc<Self>, budget: Budget) -> Result<Take, StoreError> {
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        let state = &mut *guard;
        back(state);
        for lane in state.lanes.values_mut() {
            lane.complete = false;
        }
        let mut result = self.take_locked(state, budget).await?;
        result.standing.lost.append(&mut state.lost);
        Ok(result)
    }

    async fn take_locked(&self, state: &mut State, budget: Budget) -> Result<Take, StoreError> {
        if let Some(result) = self.still_quiet(state).await? {
            return Ok(result);
        }
        let found = self.look(state).await?;
        let mut standing = Standing { paused: found.paused, ..Standing::default() };
        let joined = found.live.contains(&self.relay.boot);
        let open = self.share(state, &found, joined, &mut standing).await?;
        standing.lanes = state.lanes.len();
        let behind = state.lanes.values().find_map(|lane| own::sequence_behind(lane, found.last));
        let halted = state.halted.clone().or(behind);
        let moves = joined && !found.paused && halted.is_none();
        standing.halted = if halted.is_some() { halted } else { self.too_many_followers(state).await? };
        let mut hand = Hand::new(budget);
        let mut all = true;
        if moves {
            all = match self.choose(state, &found, &open, &mut hand).await {
                Ok(all) => all,
                Err(fault) => {
                    // What was chosen is in nobody's hands, and memory has moved on: begin again from what is written.
                    self.lose_all(state);
                    return Err(fault.at("take", &self.inner.db.place));
                }
            };
        }
        state.parked_due = hand.aside.iter().filter_map(|one| one.due).min();
        self.write(state, std::mem::take(&mut hand.aside)).await?;
        let moved = hand.chosen.iter().any(|one| !state.lanes.contains_key(&one.lane()));
        if moved {
            return Ok(Take {
                more: true,
                standing: Standing { lanes: state.lanes.len(), ..standing },
                ..Take::default()
            });
        }
        let (deliveries, out) = hand::handed(hand.chosen);
        state.handing = out;
        let next_due = self.next_due(state, &found).await?;
        let result = Take {
            more: !all,
            next_due: next_due.map(|due| duration(due - state.now)),
            retrying: found.retrying,
            standing,
            deliveries,
        };
        self.rest(state, found, &result);
        Ok(result)
    }

    /// What the last look said, if still nothing can be found.
    async fn still_quiet(&self, state: &mut State) -> Result<Option<Take>, StoreError> {
        if state.quiet.is_none() || !state.lost.is_empty() {
            return Ok(None);
        }
        let beat = match Pulse::feel(&self.inner).await {
            Ok(beat) => beat,
            Err(error) => {
                self.lose_all(state);
                return Err(error);
            }
        };
        let Some(quiet) = &state.quiet else { return Ok(None) };
        if quiet.holds(&beat, &self.route.name) {
            let next_due = quiet.result.next_due.and(quiet.due).map(|due| duration(due - beat.now));
            return Ok(Some(Take { next_due, ..quiet.result.clone() }));
        }
        state.quiet = None;
        Ok(None)
    }

    /// How the route stands. Lanes that are no longer ours are lost; all of them, if the server is not the one it was.
    async fn look(&self, state: &mut State) -> Result<Found, StoreError> {
        let (route, clock) = (self.route.name.clone(), self.inner.clock());
        let found = self
            .inner
            .db
            .attempt("take", false, move |session| {
                Box::pin(async move { standing::look(session, &route, clock).await })
            })
            .await
            .map_err(|fault| self.failed(state, fault, "take"))?;
        state.now = found.now;
        if state.server.is_some_and(|before| !before.goes_on_as(&found.server)) {
            self.lose_all(state);
        }
        state.server = Some(found.server);
        let boot = self.relay.boot.as_str();
        let gone = |(number, lane): (&i16, &super::Lane)| {
            (!found.lanes.iter().any(|row| row.is(*number, boot, lane.term))).then_some(*number)
        };
        let gone: Vec<i16> = state.lanes.iter().filter_map(gone).collect();
        for number in gone {
            self.lose(state, number);
        }
        Ok(found)
    }

    /// Takes the lanes that should be ours and are free, gives up those that should not be and are empty. Returns the ones to
    /// hand out from.
    async fn share(
        &self,
        state: &mut State,
        found: &Found,
        joined: bool,
        standing: &mut Standing,
    ) -> Result<Vec<i16>, StoreError> {
        let boot = self.relay.boot.as_str();
        let live: Vec<&str> = found.live.iter().map(String::as_str).collect();
        let shared = share_lanes(found.lanes.len(), &live);
        let mut free = Vec::new();
        let (mut empty, mut recalled) = (Vec::new(), BTreeSet::new());
        for (row, owner) in found.lanes.iter().zip(shared) {
            let ours = state.lanes.get(&row.lane);
            if let Some(lane) = ours {
                if owner.is_some_and(|owner| owner != boot) {
                    if state.out.values().any(|out| out.lane == row.lane) {
                        standing.recalled.push(lane.lane_term());
                    } else {
                        empty.push(row.lane);
                    }
                    recalled.insert(row.lane);
                }
            } else if joined && owner == Some(boot) && (!row.held || row.holder.as_deref() == Some(boot)) {
                free.push(row.lane);
            }
        }
        if !empty.is_empty() {
            self.give_up(state, empty).await?;
            self.inner.wake.wake();
        }
        if !free.is_empty() {
            self.acquire(state, free).await?;
        }
        let turn = state.turn % found.lanes.len().max(1);
        state.turn = state.turn.wrapping_add(1);
        let mut open: Vec<i16> = state.lanes.keys().copied().filter(|lane| !recalled.contains(lane)).collect();
        let middle = turn % open.len().max(1);
        open.rotate_left(middle);
        Ok(open)
    }

    /// Chooses from what was seen before, what is due, and what is fresh, in this order: each may hold earlier events of a key
    /// than the next. Says whether there is nothing more.
    async fn choose(&self, state: &mut State, found: &Found, open: &[i16], hand: &mut Hand) -> Result<bool, Fault> {
        let mut all = self.again(state, open, hand).await?;
        if all && found.lanes.iter().any(|row| open.contains(&row.lane) && row.due.is_some_and(|due| due <= found.now))
        {
            all = self.due(state, open.to_vec(), hand).await?;
        }
        let mut seen = 0;
        // Late rows come back through `again`, so they are looked at before what was read behind them.
        while all {
            all = self.again(state, open, hand).await? && self.ready(state, open, hand).await?;
            if !all || !hand.has_room() || seen >= ROWS_MAX {
                let more = |lane: &super::Lane| open.contains(&lane.number) && lane.full.is_empty() && !lane.complete;
                let rest = state.lanes.values().any(more);
                all &= !rest;
                break;
            }
            let hungry = |lane: &super::Lane| lane.is_empty() && lane.full.is_empty() && !lane.complete;
            let lanes: Vec<i16> =
                open.iter().copied().filter(|number| state.lanes.get(number).is_some_and(hungry)).collect();
            if lanes.is_empty() {
                break;
            }
            seen += self.read(state, &lanes, hand).await?.max(1);
        }
        self.load(&mut hand.chosen).await?;
        Ok(all)
    }

    /// Reads on in some lanes; says how many rows came.
    async fn read(&self, state: &mut State, lanes: &[i16], hand: &mut Hand) -> Result<usize, Fault> {
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
        reader.leaves.drop_done(state.lanes.values().map(|lane| (lane.number, &lane.position)));
        if !reader.leaves.open().eq(before) {
            reader.text = read::text(&self.inner.db.sql, reader.leaves.open());
        }
        Ok(())
    }

    /// Which key has so many followers that nothing fresh may be read in its lane, in words.
    async fn too_many_followers(&self, state: &mut State) -> Result<Option<String>, StoreError> {
        let keys: Vec<String> = state.lanes.values().flat_map(|lane| lane.full.iter().cloned()).collect();
        if keys.is_empty() {
            return Ok(None);
        }
        let (route, max) = (self.route.name.clone(), signed(self.inner.blocked_max));
        let full = self
            .inner
            .db
            .attempt("take", false, move |session| Box::pin(async move { full_keys(session, &route, keys, max).await }))
            .await
            .map_err(|fault| self.failed(state, fault, "take"))?;
        for lane in state.lanes.values_mut() {
            lane.full.retain(|key| full.contains(key));
        }
        Ok(full
            .first()
            .map(|key| format!("key {key:?} has {max} or more events waiting behind a failed one, the limit is {max}")))
    }

    /// Writes what was put aside with the positions of its lanes, and positions that were long unwritten.
    async fn write(&self, state: &mut State, aside: Vec<Aside>) -> Result<(), StoreError> {
        let touched: BTreeSet<i16> = aside.iter().map(|one| one.lane).collect();
        let old = |since: i64| state.now - since >= span(UNWRITTEN_MAX);
        let stale = state.lanes.values().any(|lane| lane.unwritten_since.is_some_and(old));
        if touched.is_empty() && !stale {
            return Ok(());
        }
        let due = |lane: &&super::Lane| touched.contains(&lane.number) || lane.unwritten_since.is_some();
        let checkpoints: Vec<Checkpoint> = state.lanes.values().filter(due).map(Checkpoint::of).collect();
        let (writer, max, write) = (self.writer(), signed(self.inner.blocked_max), !aside.is_empty());
        let waiting: Vec<(i16, String)> =
            aside.iter().filter(|one| one.due.is_none()).filter_map(|one| Some((one.lane, one.key.clone()?))).collect();
        let tried = checkpoints.clone();
        let done = self
            .inner
            .db
            .attempt("take", write, move |session| {
                Box::pin(async move { put_aside(session, &writer, &tried, aside, max).await })
            })
            .await;
        let (written, full) = done.map_err(|fault| {
            // Memory has moved past what could not be written.
            self.lose_all(state);
            fault.at("take", &self.inner.db.place)
        })?;
        for (number, key) in waiting {
            if let Some(lane) = state.lanes.get_mut(&number) {
                lane.blocks(&key);
                if full.contains(&key) && !lane.full.contains(&key) {
                    lane.full.push(key);
                }
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

    /// When something parked in our lanes becomes due next.
    async fn next_due(&self, state: &mut State, found: &Found) -> Result<Option<i64>, StoreError> {
        let ours: Vec<i16> = state.lanes.keys().copied().collect();
        let in_our_lanes = || found.lanes.iter().filter(|row| ours.contains(&row.lane)).filter_map(|row| row.due);
        let parked = state.parked_due.take();
        if in_our_lanes().all(|due| due > found.now) {
            return Ok(in_our_lanes().chain(parked).min());
        }
        let (route, now) = (self.route.name.clone(), state.now);
        let next: Option<Time> = self
            .inner
            .db
            .attempt("take", false, move |session| {
                Box::pin(async move {
                    let statement = session.sql.scalar(include_str!("../sql/next_due.sql")).bind(route).bind(ours);
                    Ok(statement.bind(Time(now)).fetch_one(&mut *session.conn).await?)
                })
            })
            .await
            .map_err(|fault| self.failed(state, fault, "take"))?;
        Ok(next.map(|next| next.0).into_iter().chain(parked).min())
    }

    /// Remembers that there is nothing to find until something changes.
    fn rest(&self, state: &mut State, found: Found, result: &Take) {
        let idle = |lane: &super::Lane| lane.is_empty() && lane.unwritten_since.is_none() && lane.complete;
        let quiet = result.deliveries.is_empty()
            && !result.more
            && state.out.is_empty()
            && result.standing.halted.is_none()
            && (found.paused || state.lanes.values().all(idle));
        if !quiet {
            return;
        }
        let running = state.lanes.values().flat_map(|lane| lane.position.pending.keys().copied()).collect();
        let due = found.lanes.iter().filter_map(|row| row.due).min();
        if found.paused || due.is_some_and(|due| due <= found.now) {
            return;
        }
        let lanes = found.marks();
        let boot = format!("{} ", self.relay.boot);
        let ours = |mark: &&Option<String>| mark.as_ref().is_some_and(|mark| mark.starts_with(&boot));
        if lanes.iter().filter(ours).count() != state.lanes.len() {
            return;
        }
        let Found { last, server, paused, live, .. } = found;
        state.quiet = Some(Quiet { last, running, server, paused, due, lanes, live, result: result.clone() });
    }
}

/// What a caller did not wait for is in nobody's hands.
fn back(state: &mut State) {
    for (_, out) in std::mem::take(&mut state.handing) {
        if let (Some(row), Some(lane)) = (out.row, state.lanes.get_mut(&out.lane)) {
            lane.again.insert(row.seq, row);
        }
    }
}

async fn full_keys(session: &mut Session, route: &str, keys: Vec<String>, max: i64) -> Result<Vec<String>, Fault> {
    let statement = session.sql.query(include_str!("../sql/full_keys.sql"));
    let rows = statement.bind(route.to_owned()).bind(keys).bind(max).fetch_all(&mut *session.conn).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Writes checkpoints with what was put aside. Says which lanes were still ours, and which keys have too many followers now.
async fn put_aside(
    session: &mut Session,
    writer: &Writer,
    checkpoints: &[Checkpoint],
    aside: Vec<Aside>,
    max: i64,
) -> Result<(Vec<i16>, Vec<String>), Fault> {
    if aside.is_empty() {
        return Ok((checkpoint::save(session, writer, checkpoints, Receipts::default()).await?, Vec::new()));
    }
    let fenced = super::settle::fence(session, writer, checkpoints).await?;
    let ours: Vec<Checkpoint> = checkpoints.iter().filter(|c| fenced.lanes.contains(&c.lane)).cloned().collect();
    let aside: Vec<Aside> = aside.into_iter().filter(|one| fenced.lanes.contains(&one.lane)).collect();
    fn column<T>(all: &[Aside], of: impl Fn(&Aside) -> T) -> Vec<T> {
        all.iter().map(of).collect()
    }
    session
        .sql
        .query(include_str!("../sql/park.sql"))
        .bind(writer.route.clone())
        .bind(Time(fenced.now))
        .bind(column(&aside, |a| a.lane))
        .bind(column(&aside, |a| a.seq))
        .bind(column(&aside, |a| a.key.clone()))
        .bind(column(&aside, |a| if a.due.is_some() { "delayed" } else { "blocked" }))
        .bind(column(&aside, |a| a.due.is_none()))
        .bind(column(&aside, |a| a.due.map(Time)))
        .bind(vec![0_i32; aside.len()])
        .bind(vec![None::<String>; aside.len()])
        .bind(vec![None::<String>; aside.len()])
        .execute(&mut *session.conn)
        .await?;
    let mut keys: Vec<String> = aside.into_iter().filter(|one| one.due.is_none()).filter_map(|one| one.key).collect();
    keys.sort_unstable();
    keys.dedup();
    // What they wait for may have gone since the look.
    release(session, &writer.route, &keys, fenced.now).await?;
    let full = if keys.is_empty() { Vec::new() } else { full_keys(session, &writer.route, keys, max).await? };
    Ok((checkpoint::save(session, writer, &ours, Receipts::default()).await?, full))
}
