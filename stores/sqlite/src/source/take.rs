//! Takes: acquires the lane if it is free, looks, and parks what cannot go yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::{Budget, Delivery, LaneTerm, Ownership, StoreError, Take};
use serde_json::json;
use sqlx::SqliteConnection;

use super::checkpoint::Checkpoint;
use super::lane::{self, Lane};
use super::look::{self, Answer, Fate, Outgoing, Parked, Question};
use super::{Idle, LANE, Shared, State};
use crate::clock::{duration, span, timestamp};
use crate::release::{block_again, release};

/// How long a position that only moved may stay unwritten: what a crash makes the next owner read again.
const UNWRITTEN_MAX: Duration = Duration::from_secs(1);

impl Shared {
    pub(super) async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        let mut result = self.take_locked(&mut state, budget).await?;
        result.ownership.lost = std::mem::take(&mut state.lost);
        result.taken_over = std::mem::take(&mut state.taken_over);
        Ok(result)
    }

    async fn take_locked(&self, state: &mut State, budget: Budget) -> Result<Take, StoreError> {
        self.resolve(state).await?;
        let version = self.inner.db.version().await?;
        let now = self.inner.now();
        if let Some(idle) = &state.idle
            && idle.version == version
            && idle.at <= now
            && idle.until.is_none_or(|until| now < until)
        {
            let next_due = idle.result.next_due.and(idle.until).map(|until| duration(until - now));
            return Ok(Take { next_due, ..idle.result.clone() });
        }
        state.idle = None;
        let lane = self.lane(now).await?;
        if let Some(owned) = &state.owned
            && !lane.held_by(&self.relay.boot, owned.term)
        {
            self.lose(state);
        }
        if state.owned.is_none() && (!lane.is_free(&self.relay.boot, now) || !self.acquire(state).await?) {
            let ownership = Ownership { paused: lane.paused, ..Ownership::default() };
            let result = Take { ownership, ..Take::default() };
            return Ok(rest(state, (version, now), lane.alive_until, result));
        }
        // Only a look before it was ours finds another's name.
        state.taken_over += usize::from(lane.was_anothers(&self.relay.boot));
        let mut ownership = Ownership { paused: lane.paused, lanes: 1, ..Ownership::default() };
        let Some(owned) = &mut state.owned else { return Ok(Take { ownership, ..Take::default() }) };
        ownership.halted.clone_from(&owned.halted);
        if lane.paused || ownership.halted.is_some() {
            let answer = Answer::default();
            return self.apply(state, version, now, ownership, answer).await;
        }
        let again = owned.position.unsettled.numbers().filter(|n| !state.out.contains_key(n));
        let question = Question {
            route: Arc::clone(&self.route),
            start_at: owned.start_at,
            now,
            budget,
            limits: self.inner.limits,
            turn: state.turn,
            out: json!(state.out.keys().filter(|h| **h < 0).map(|h| -h).collect::<Vec<_>>()).to_string(),
            again: again.take(look::ROWS_MAX).collect(),
            after: owned.position.hwm,
        };
        state.turn = state.turn.wrapping_add(1);
        let answer = self
            .inner
            .db
            .look("take", move |conn| Box::pin(async move { Ok(look::look(conn, &question).await?) }))
            .await?;
        self.apply(state, version, now, ownership, answer).await
    }

    async fn lane(&self, now: i64) -> Result<Lane, StoreError> {
        let (route, boot) = (Arc::clone(&self.route), self.relay.boot.clone());
        self.inner
            .db
            .look("take", move |conn| Box::pin(async move { lane::look(conn, &route.name, &boot, now).await }))
            .await
    }

    /// Moves the position by what was found; writes it when something was parked or it was long unwritten.
    async fn apply(
        &self,
        state: &mut State,
        version: crate::database::Version,
        now: i64,
        ownership: Ownership,
        answer: Answer,
    ) -> Result<Take, StoreError> {
        let Some(owned) = &mut state.owned else { return Ok(Take { ownership, ..Take::default() }) };
        let mut position = owned.position.clone();
        let mut parked = answer.parked_again;
        for row in &parked {
            position.unsettled.remove(row.seq);
        }
        for (seq, fate) in answer.fresh {
            position.hwm = seq;
            position.seen += 1;
            match fate {
                Fate::Filtered => position.filtered += 1,
                Fate::Outgoing => position.unsettled.insert(seq),
                Fate::Parked(row) => parked.push(row),
            }
        }
        position.parked += i64::try_from(parked.len()).unwrap_or(0);
        let next_due = parked.iter().filter_map(|row| row.due).chain(answer.next_due).min();
        let moved = position != owned.position;
        let since = owned.unwritten_since.or(moved.then_some(now));
        if !parked.is_empty() || since.is_some_and(|since| now - since >= span(UNWRITTEN_MAX)) {
            if !self.park_rows(state, position, parked, now).await? {
                self.lose(state);
                return Ok(Take { more: true, ownership: Ownership { lanes: 0, ..ownership }, ..Take::default() });
            }
        } else {
            owned.position = position;
            owned.unwritten_since = since;
        }
        let Some(owned) = &state.owned else { return Ok(Take { ownership, ..Take::default() }) };
        let term = owned.term;
        let settled = owned.unwritten_since.is_none();
        let result = Take {
            more: answer.more,
            next_due: next_due.map(|due| duration(due - now)),
            retrying: answer.retrying,
            taken_over: 0,
            ownership,
            deliveries: answer.outgoing.into_iter().map(|outgoing| delivery(outgoing, term)).collect(),
        };
        let quiet = settled && !result.more && result.deliveries.is_empty() && !moved;
        Ok(if quiet { rest(state, (version, now), next_due, result) } else { result })
    }

    /// Writes the position with what was parked. Says whether the lane was still ours.
    async fn park_rows(
        &self,
        state: &mut State,
        position: Checkpoint,
        parked: Vec<Parked>,
        now: i64,
    ) -> Result<bool, StoreError> {
        let Some(owned) = &mut state.owned else { return Ok(false) };
        let (route, boot, term) = (Arc::clone(&self.route), self.relay.boot.clone(), owned.term);
        let tried = Arc::new(Mutex::new(None));
        let trying = Arc::clone(&tried);
        let written = self
            .inner
            .db
            .write("take", move |conn| {
                Box::pin(async move {
                    if !lane::is_ours(conn, &route.name, &boot, term).await? {
                        return Ok(None);
                    }
                    park(conn, &route.name, &parked, now).await?;
                    let mut position = position;
                    position.save(conn, &route.name, 0, 0).await?;
                    *trying.lock().unwrap_or_else(PoisonError::into_inner) = Some(position.clone());
                    Ok(Some(position))
                })
            })
            .await;
        match written {
            Ok(Some(position)) => {
                owned.position = position;
                owned.unwritten_since = None;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                state.unsure = tried.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(error)
            }
        }
    }
}

/// Remembers that there is nothing to find until the file changes or the time comes.
fn rest(state: &mut State, (version, at): (crate::database::Version, i64), until: Option<i64>, result: Take) -> Take {
    state.idle = Some(Idle { version, at, until, result: result.clone() });
    result
}

fn delivery(outgoing: Outgoing, term: i64) -> Delivery {
    Delivery {
        handle: outgoing.handle,
        lane: LaneTerm { lane: LANE, term },
        position: Some(outgoing.logged.seq),
        attempts: outgoing.attempts,
        ordered: outgoing.ordered,
        appended_at: timestamp(outgoing.logged.appended_at),
        refused: outgoing.refused,
        event: outgoing.logged.event,
    }
}

/// Parks events.
async fn park(conn: &mut SqliteConnection, route: &str, parked: &[Parked], now: i64) -> Result<(), sqlx::Error> {
    let mut keys = HashMap::new();
    for parked in parked {
        let state = if parked.due.is_some() { "delayed" } else { "blocked" };
        sqlx::query(include_str!("../sql/park.sql"))
            .bind(route)
            .bind(parked.seq)
            .bind(parked.key.as_deref())
            .bind(state)
            .bind(parked.due.is_none())
            .bind(parked.due)
            .bind(0)
            .bind(None::<&str>)
            .bind(None::<&str>)
            .bind(now)
            .execute(&mut *conn)
            .await?;
        if let (None, Some(key)) = (parked.due, &parked.key) {
            let first = keys.entry(Arc::clone(key)).or_insert(parked.seq);
            *first = parked.seq.min(*first);
        }
    }
    for (key, first) in keys {
        // What they wait for may have gone since the look, and the key have gone on up to later ones.
        block_again(conn, route, &key, first, now).await?;
        release(conn, route, &key, now).await?;
    }
    Ok(())
}
