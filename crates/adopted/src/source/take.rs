//! Reading what is due, in the layout's order, past what is in our hands and what waits.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Budget, Delivery, Event, LaneTerm, StoreError, Take};
use serde_json::json;

use super::lease::Look;
use super::row::Due;
use super::{LANE, Out, Shared, State};
use crate::ground::{Row, Statement};
use crate::layout::Claim;
use crate::store::clock;
use crate::tables::routes;

impl Shared {
    pub(super) async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let (inner, ground) = (&self.inner, &self.inner.ground);
        let more = std::mem::take(&mut self.state().more);
        let mut looks = vec![routes::look(inner, &self.route.name, &self.relay.boot)];
        if !more {
            let in_hand = json!(self.state().rows).to_string();
            let waiting = Statement::new(Arc::clone(&self.takes.waiting)).bind(&inner.layout_name).bind(clock());
            looks.push(waiting.bind(in_hand));
        }
        let found = ground.look("take", looks).await?;
        let look =
            found.first().and_then(Look::read).ok_or_else(|| routes::not_registered(&self.route.name, "take"))?;
        // Without having looked, something may be waiting.
        let (next_due, retrying) = found.get(1).map_or((None, more), |rows| waiting(rows));
        let (deliveries, more) = match (&inner.layout.claim, &self.takes.claims) {
            (Claim::Lease, _) => self.take_owned(&look, budget).await?,
            _ if look.paused => (Vec::new(), false),
            (Claim::Columns(claimed), Some(claims)) => self.claim(claims, claimed, budget).await?,
            (Claim::RowLocks | Claim::Columns(_), _) => self.lock(budget, more).await?,
        };
        let mut state = self.state();
        state.more = more && !deliveries.is_empty();
        // A route of relays that share it is nobody's.
        let taken_over = usize::from(look.anothers && state.term.is_some());
        Ok(Take { deliveries, more, next_due, retrying, taken_over, standing: state.standing(look.paused) })
    }

    /// Reads what is due, if the table is ours or free.
    async fn take_owned(&self, look: &Look, budget: Budget) -> Result<(Vec<Delivery>, bool), StoreError> {
        let term = match look.ours {
            Some(term) => Some(term),
            None if look.free && !look.paused => self.acquire().await?,
            None => None,
        };
        {
            let mut state = self.state();
            match term {
                Some(term) => state.own(term),
                None => state.lose(),
            }
        }
        match term.filter(|_| !look.paused) {
            Some(term) => self.read(term, budget).await,
            None => Ok((Vec::new(), false)),
        }
    }

    /// Reads on from where the walk is; from the front when it has come to the end.
    async fn read(&self, term: i64, budget: Budget) -> Result<(Vec<Delivery>, bool), StoreError> {
        let (place, in_hand) = {
            let mut state = self.state();
            state.turned.clear();
            (state.walk.next(), json!(state.rows).to_string())
        };
        let from_the_front = place.is_none();
        let rows = self.rows(place, in_hand, budget.rows).await?;
        let full = rows.len() >= budget.rows;
        let (mut readable, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
        let (mut bytes, mut cut, mut place) = (0, false, None);
        for row in rows {
            let due = Due::read(&self.inner.layout, self.inner.limits, row);
            let size = due.event.as_ref().map_or(0, Event::size);
            if !readable.is_empty() && bytes + size > budget.bytes {
                cut = true;
                break;
            }
            bytes += size;
            place = Some(due.place);
            let out = Out::read(due.row, due.attempts, Some(due.was));
            match due.event {
                Ok(event) => readable.push((out, event)),
                Err(why) => unreadable.push(why.of(out)),
            }
        }
        if !unreadable.is_empty() {
            self.bury(term, unreadable).await?;
        }
        let mut state = self.state();
        if state.term != Some(term) {
            // Lost meanwhile: the next take begins anew.
            return Ok((Vec::new(), true));
        }
        // From here to the end nothing waits: what is handed out reaches the engine. Rows of a key of which earlier ones came
        // back while these were read would overtake them.
        let count = readable.len();
        readable.retain(|(_, event)| event.ordering_key().is_none_or(|key| !state.turned.contains(key)));
        let turned = readable.len() < count;
        let more = state.walk.came(from_the_front, place, !full && !cut && !turned);
        let lane = LaneTerm { lane: LANE, term };
        let hand_out = |(out, event)| self.hand_out(&mut state, lane, out, event);
        Ok((readable.into_iter().map(hand_out).collect(), more))
    }

    async fn rows(&self, place: Option<String>, in_hand: String, limit: usize) -> Result<Vec<Row>, StoreError> {
        let text = if place.is_some() { &self.takes.behind } else { &self.takes.first };
        let mut statement = Statement::new(Arc::clone(text))
            .bind(&self.inner.layout_name)
            .bind(clock())
            .bind(in_hand)
            .bind(limit.to_string());
        if let Some(place) = place {
            statement = statement.bind(place);
        }
        let found = self.inner.ground.look("take", vec![statement]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Puts a row into the engine's hands.
    pub(super) fn hand_out(&self, state: &mut State, lane: LaneTerm, out: Out, event: Event) -> Delivery {
        state.handles += 1;
        let (handle, attempts) = (state.handles, out.attempts);
        let ordered = self.inner.layout.ordered;
        let key = event.ordering_key().filter(|_| ordered).map(str::to_owned);
        let appended_at = event.occurred_at;
        state.rows.insert(out.row.clone());
        state.out.insert(handle, Out { event_id: event.id.clone(), key, ..out });
        Delivery { handle, lane, event: Arc::new(event), position: None, attempts, ordered, appended_at }
    }
}

/// Reads the row of [`crate::sql::Takes::waiting`]: when the next row comes, and whether any is to be tried again.
fn waiting(rows: &[Row]) -> (Option<Duration>, bool) {
    let at = |n: usize| rows.first().and_then(|row| row.get(n)?.as_deref());
    let micros: Option<i64> = at(0).and_then(|micros| micros.parse().ok());
    (micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or_default())), at(1).is_some())
}
