//! Reading what is due, in the mapping's order, past what is in our hands and what waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::faults::{self, Fault};
use postroom_core::{Budget, Delivery, Event, Failure, LaneTerm, StoreError, Take};
use serde_json::json;

use super::consumer::ReadRow;
use super::lease::Look;
use super::row::{Due, Unreadable};
use super::settle::Sorted;
use super::{LANE, PendingRow, Shared, State};
use crate::executor::{Row, Statement};
use crate::mapping::Claim;
use crate::store::clock;
use crate::tables::routes;

impl Shared {
    pub(super) async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let (inner, executor) = (&self.inner, &self.inner.executor);
        let more = std::mem::take(&mut self.state().more);
        let mut looks = vec![routes::look(inner, &self.route.name, &self.relay.boot)];
        if !more {
            let (text, third) = match &self.entries {
                Some(entries) => (&entries.waiting, self.route.name.clone()),
                None => (&self.takes.waiting, json!(self.state().rows).to_string()),
            };
            looks.push(Statement::new(Arc::clone(text)).bind(&inner.mapping_name).bind(clock()).bind(third));
        }
        let found = executor.look("take", looks).await?;
        let look =
            found.first().and_then(Look::read).ok_or_else(|| routes::not_registered(&self.route.name, "take"))?;
        // Without having looked, something may be waiting.
        let (next_due, retrying) = found.get(1).map_or((None, more), |rows| waiting(rows));
        let (deliveries, more) = match (&inner.mapping.claim, &self.takes.claims) {
            (Claim::Lease, _) => self.take_owned(&look, budget, more).await?,
            _ if look.paused => (Vec::new(), false),
            (Claim::Columns(claimed), Some(claims)) => self.claim(claims, claimed, budget).await?,
            (Claim::RowLocks | Claim::Columns(_), _) => self.lock(&look, budget, more).await?,
        };
        let mut state = self.state();
        state.more = more && !deliveries.is_empty();
        // A route of relays that share it is nobody's.
        let taken_over = usize::from(look.anothers && state.term.is_some());
        Ok(Take { deliveries, more, next_due, retrying, taken_over, ownership: state.ownership(look.paused) })
    }

    /// Reads what is due, if the table is ours or free.
    async fn take_owned(&self, look: &Look, budget: Budget, sure: bool) -> Result<(Vec<Delivery>, bool), StoreError> {
        let term = match look.ours {
            Some(term) => Some(term),
            None if look.free && !look.paused => self.acquire().await?,
            None => None,
        };
        {
            let mut state = self.state();
            state.several = look.several;
            match term {
                Some(term) => state.own(term),
                None => state.lose(),
            }
        }
        match (term.filter(|_| !look.paused), &self.entries) {
            (Some(term), Some(entries)) => self.read_entries(entries, term, budget, sure).await,
            (Some(term), None) => self.read(look, term, budget).await,
            (None, _) => Ok((Vec::new(), false)),
        }
    }

    /// Reads on from where the walk is; from the front when it has come to the end. Where what has failed before would leave no
    /// room for anything else, it gets about half of it.
    async fn read(&self, look: &Look, term: i64, budget: Budget) -> Result<(Vec<Delivery>, bool), StoreError> {
        let (walk, mut in_hand, share) = {
            let mut state = self.state();
            state.turned.clear();
            let cursor = state.walk.next(look).map(|cursor| (cursor, state.walk.unblocked.clone()));
            (cursor, state.rows.clone(), state.share(budget.rows))
        };
        let mut from_the_front = walk.is_none();
        let mut rows = self.rows(walk.clone(), &in_hand, budget.rows).await?;
        if let Some((cursor, _)) = walk
            && self.is_late(&cursor, &in_hand, budget.rows).await?
        {
            self.state().walk.restart(look);
            from_the_front = true;
            rows = self.rows(None, &in_hand, budget.rows).await?;
        }
        let full = rows.len() >= budget.rows;
        let mut read = Read::new(budget, self.offers_unreadable());
        let due = |row| self.due(row);
        let rows: Vec<Due> = rows.into_iter().map(due).collect();
        let crowded = full || rows.iter().map(Due::size).sum::<usize>() > budget.bytes;
        let (mut cursor, mut failed, mut cut) = (None, (0, 0), false);
        for due in rows {
            if crowded && due.attempts > 0 {
                failed = (failed.0 + 1, failed.1 + due.size());
                // All behind it too: it may be of its key.
                cut = failed.0 > share || (failed.0 > 1 && failed.1 > budget.bytes / 2);
            }
            if cut {
                break;
            }
            let here = due.cursor.clone();
            if !read.add(due) {
                break;
            }
            cursor = Some(here);
        }
        let all = !full && !cut && !read.full;
        if cut {
            in_hand.extend(read.ids().map(str::to_owned));
            for row in self.fresh_rows(&in_hand, budget.rows - read.len()).await? {
                if !read.add(due(row)) {
                    break;
                }
            }
        }
        let Read { readable, unreadable, .. } = read;
        if !unreadable.is_empty() {
            self.settle_unreadable(term, unreadable).await?;
        }
        let mut processed = Sorted::default();
        let readable = self.unprocessed(readable, &mut processed).await?;
        if !processed.is_empty() {
            self.write(term, &processed).await?;
        }
        let mut state = self.state();
        let Some((deliveries, turned)) = self.deliver_read(&mut state, term, readable) else {
            // Lost meanwhile: the next take begins anew.
            return Ok((Vec::new(), true));
        };
        let more = state.walk.came(from_the_front, cursor, all && !turned);
        Ok((deliveries, more))
    }

    /// Hands out what was read, and says whether some of it stays behind; nothing when the table is no longer ours. From here to
    /// the end of the take nothing waits: what is handed out reaches the engine. Rows of a key of which earlier ones came back
    /// while these were read would overtake them.
    pub(super) fn deliver_read(
        &self,
        state: &mut State,
        term: i64,
        mut readable: Vec<(PendingRow, Result<Event, Unreadable>)>,
    ) -> Option<(Vec<Delivery>, bool)> {
        if state.term != Some(term) {
            return None;
        }
        let count = readable.len();
        readable.retain(|(_, event)| {
            event.as_ref().ok().and_then(Event::ordering_key).is_none_or(|key| !state.turned.contains(key))
        });
        let turned = readable.len() < count;
        let lane = LaneTerm { lane: LANE, term };
        let deliver = |(out, event)| self.deliver_or_refuse(state, lane, out, event);
        Some((readable.into_iter().map(deliver).collect(), turned))
    }

    /// Due rows from the front, or behind a cursor if nobody has let keys go on since.
    async fn rows(
        &self,
        walk: Option<(String, String)>,
        in_hand: &HashSet<String>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let text = if walk.is_some() { &self.takes.behind } else { &self.takes.first };
        let mut statement = self.reading(text, in_hand, limit);
        if let Some((cursor, unblocked)) = walk {
            statement = statement.bind(cursor).bind(&self.route.name).bind(unblocked);
        }
        let found = self.inner.executor.look("take", vec![statement]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Whether a row was committed at a cursor that the walk has passed. Asked after the rows behind it are read: what is later of
    /// its key was committed with it or after it, and may be among them.
    async fn is_late(&self, cursor: &str, in_hand: &HashSet<String>, limit: usize) -> Result<bool, StoreError> {
        if !self.inner.mapping.ordered || faults::is(Fault::LateIsOvertaken) {
            return Ok(false);
        }
        let statement = self.reading(&self.takes.late, in_hand, limit).bind(cursor);
        let found = self.inner.executor.look("take", vec![statement]).await?;
        Ok(found.first().is_some_and(|rows| !rows.is_empty()))
    }

    /// Due rows from the front that have not failed before.
    async fn fresh_rows(&self, in_hand: &HashSet<String>, limit: usize) -> Result<Vec<Row>, StoreError> {
        let statement = self.reading(&self.takes.fresh, in_hand, limit);
        let found = self.inner.executor.look("take", vec![statement]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// A statement of [`crate::sql::Takes`] with the values that all have.
    pub(super) fn reading(&self, text: &Arc<str>, in_hand: &HashSet<String>, limit: usize) -> Statement {
        let statement = Statement::new(Arc::clone(text)).bind(&self.inner.mapping_name).bind(clock());
        statement.bind(json!(in_hand).to_string()).bind(limit.to_string())
    }

    /// Puts a row into the engine's hands.
    pub(super) fn deliver_out(&self, state: &mut State, lane: LaneTerm, out: PendingRow, event: Event) -> Delivery {
        state.handles += 1;
        let (handle, attempts) = (state.handles, out.attempts);
        let ordered = self.inner.mapping.ordered;
        let key = event.ordering_key().filter(|_| ordered).map(str::to_owned);
        let appended_at = event.occurred_at;
        state.rows.insert(out.row.clone());
        state.out.insert(handle, PendingRow { event_id: event.id.clone(), key, ..out });
        Delivery { handle, lane, event: Arc::new(event), position: None, attempts, ordered, appended_at, refused: None }
    }

    /// The same for a row that may hold no event: then it is given up, and the transport may publish its dead letter.
    pub(super) fn deliver_or_refuse(
        &self,
        state: &mut State,
        lane: LaneTerm,
        out: PendingRow,
        event: Result<Event, Unreadable>,
    ) -> Delivery {
        let (mut event, failure) = match event {
            Ok(event) => return self.deliver_out(state, lane, out, event),
            Err(unreadable) => unreadable.into_event(),
        };
        if event.id.is_empty() {
            event.id.clone_from(&out.row);
        }
        Delivery { refused: Some(Box::new(failure)), ..self.deliver_out(state, lane, out, event) }
    }

    /// Whether rows that hold no event are handed out: where a dead letter is done once the transport has published it.
    /// Elsewhere the table itself says that they are dead.
    pub(super) fn offers_unreadable(&self) -> bool {
        self.inner.mapping.leaves_dead_letters_to_the_transport()
    }
}

/// What a take has read so far, within its budget.
pub(super) struct Read {
    budget: Budget,
    bytes: usize,
    pub(super) full: bool,
    offers_unreadable: bool,
    pub(super) readable: Vec<ReadRow>,
    pub(super) unreadable: Vec<(PendingRow, Failure)>,
}

impl Read {
    pub(super) fn new(budget: Budget, offers_unreadable: bool) -> Self {
        Self { budget, bytes: 0, full: false, offers_unreadable, readable: Vec::new(), unreadable: Vec::new() }
    }

    fn len(&self) -> usize {
        self.readable.len() + self.unreadable.len()
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        let unreadable = self.unreadable.iter().map(|(out, _)| out.row.as_str());
        self.readable.iter().map(|(out, _)| out.row.as_str()).chain(unreadable)
    }

    /// Adds a row, or says that there is no room for it. A first one always has room.
    pub(super) fn add(&mut self, due: Due) -> bool {
        let size = due.size();
        if !self.readable.is_empty() && self.bytes + size > self.budget.bytes {
            self.full = true;
            return false;
        }
        self.bytes += size;
        let out = PendingRow::read(due.row, due.attempts, Some(due.was));
        match due.event {
            Err(why) if !self.offers_unreadable => self.unreadable.push(why.of(out)),
            event => self.readable.push((out, event)),
        }
        true
    }
}

/// Reads the row of [`crate::sql::Takes::waiting`]: when the next row comes, and whether any is to be tried again.
fn waiting(rows: &[Row]) -> (Option<Duration>, bool) {
    let at = |n: usize| rows.first().and_then(|row| row.get(n)?.as_deref());
    let micros: Option<i64> = at(0).and_then(|micros| micros.parse().ok());
    (micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or_default())), at(1).is_some())
}
