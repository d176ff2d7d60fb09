//! Reading what is due, in the layout's order, past what is in our hands and what waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Budget, Delivery, Event, LaneTerm, StoreError, Take};
use serde_json::json;

use super::lease::Look;
use super::row::Due;
use super::{LANE, Out, Shared, State, Walk};
use crate::ground::{Row, Statement};
use crate::layout::Claim;
use crate::store::clock;
use crate::tables::routes;

/// A walk begins again at the front after this long: what is committed late may stand anywhere.
const WALK_MAX: Duration = Duration::from_secs(1);

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
        let next_due = found.get(1).and_then(|rows| next_due(rows));
        // Without having looked, something may be waiting.
        let retrying = more || next_due.is_some();
        let (deliveries, more) = match (&inner.layout.claim, &self.takes.claims) {
            (Claim::Lease, _) => self.take_owned(&look, budget).await?,
            _ if look.paused => (Vec::new(), false),
            (Claim::Columns(claimed), Some(claims)) => self.claim(claims, claimed, budget).await?,
            (Claim::RowLocks | Claim::Columns(_), _) => self.lock(budget, more).await?,
        };
        let mut state = self.state();
        state.more = more && !deliveries.is_empty();
        Ok(Take { deliveries, more, next_due, retrying, standing: state.standing(look.paused) })
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
            if state.walk.began.is_none_or(|began| began.elapsed() >= WALK_MAX) {
                state.walk = Walk { place: None, began: Some(Instant::now()) };
            }
            (state.walk.place.clone(), json!(state.rows).to_string())
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
        // From here to the end nothing waits: what is handed out reaches the engine.
        state.walk.place = place.or(state.walk.place.take());
        let lane = LaneTerm { lane: LANE, term };
        let hand_out = |(out, event)| self.hand_out(&mut state, lane, out, event);
        let deliveries: Vec<Delivery> = readable.into_iter().map(hand_out).collect();
        let at_the_end = !full && !cut;
        if at_the_end {
            state.walk = Walk::default();
        }
        // What stands before the place the walk began at is looked at by the next one.
        Ok((deliveries, !at_the_end || !from_the_front))
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

/// Reads the row of [`crate::sql::Takes::waiting`].
fn next_due(rows: &[Row]) -> Option<Duration> {
    let micros: i64 = rows.first()?.first()?.as_deref()?.parse().ok()?;
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
}
