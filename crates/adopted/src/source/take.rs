//! Reading what is due, in the layout's order, past what is in our hands and what waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Budget, Delivery, Event, Failure, LaneTerm, StoreError, Take};
use serde_json::json;

use super::lease::Look;
use super::row::Due;
use super::{Out, Shared, State, Walk};
use crate::ground::{Row, Statement};
use crate::store::clock;
use crate::tables::routes;

/// A walk begins again at the front after this long: what is committed late may stand anywhere.
const WALK_MAX: Duration = Duration::from_secs(1);
/// Most waiting rows whose keys are looked up; beyond, later ones of their keys may come, and go back.
const WAITING_MAX: usize = 10_000;

/// Rows that wait for another try.
struct Waiting {
    keys: Vec<String>,
    next_due: Option<Duration>,
    any: bool,
}

impl Shared {
    pub(super) async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let mut state = self.state.lock().await;
        let (inner, ground) = (&self.inner, &self.inner.ground);
        let clock = clock();
        let waiting = Statement::new(Arc::clone(&inner.texts.take.waiting))
            .bind(&inner.layout_name)
            .bind(&clock)
            .bind(WAITING_MAX.to_string());
        let found = ground.look("take", vec![routes::look(inner, &self.route.name, &self.relay.boot), waiting]).await?;
        let look =
            found.first().and_then(Look::read).ok_or_else(|| routes::not_registered(&self.route.name, "take"))?;
        match look.ours {
            Some(term) => state.own(term),
            None if look.free && !look.paused => match self.acquire().await? {
                Some(term) => state.own(term),
                None => state.lose(),
            },
            None => state.lose(),
        }
        let waiting = Waiting::read(found.get(1).map_or(&[], Vec::as_slice));
        if state.term.is_none() || look.paused {
            let standing = state.standing(look.paused);
            return Ok(Take { next_due: waiting.next_due, retrying: waiting.any, standing, ..Take::default() });
        }
        let (deliveries, more) = self.read(&mut state, budget, &waiting).await?;
        let standing = state.standing(false);
        Ok(Take { deliveries, more, next_due: waiting.next_due, retrying: waiting.any, standing })
    }

    /// Reads on from where the walk is; from the front when it has come to the end.
    async fn read(
        &self,
        state: &mut State,
        budget: Budget,
        waiting: &Waiting,
    ) -> Result<(Vec<Delivery>, bool), StoreError> {
        if state.walk.began.is_none_or(|began| began.elapsed() >= WALK_MAX) {
            state.walk = Walk { place: None, began: Some(Instant::now()) };
        }
        let from_the_front = state.walk.place.is_none();
        let rows = self.rows(state, budget, waiting).await?;
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
            match due.event {
                Ok(event) => readable.push((due.row, due.attempts, event)),
                Err(why) => unreadable.push((due.row, due.attempts, Failure::permanent("layout.unreadable", why))),
            }
        }
        if !unreadable.is_empty() {
            self.bury(state, unreadable).await?;
        }
        // From here to the end nothing waits: what is handed out reaches the engine.
        state.walk.place = place.or(state.walk.place.take());
        let hand_out = |(row, attempts, event)| self.hand_out(state, row, attempts, event);
        let deliveries: Vec<Delivery> = readable.into_iter().map(hand_out).collect();
        let at_the_end = !full && !cut;
        if at_the_end {
            state.walk = Walk::default();
        }
        // What stands before the place the walk began at is looked at by the next one.
        Ok((deliveries, !at_the_end || !from_the_front))
    }

    async fn rows(&self, state: &State, budget: Budget, waiting: &Waiting) -> Result<Vec<Row>, StoreError> {
        let texts = &self.inner.texts.take;
        let text = if state.walk.place.is_some() { &texts.behind } else { &texts.first };
        let mut statement = Statement::new(Arc::clone(text))
            .bind(&self.inner.layout_name)
            .bind(clock())
            .bind(json!(state.rows).to_string())
            .bind(json!(waiting.keys).to_string())
            .bind(budget.rows.to_string());
        if let Some(place) = &state.walk.place {
            statement = statement.bind(place);
        }
        let found = self.inner.ground.look("take", vec![statement]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    fn hand_out(&self, state: &mut State, row: String, attempts: u32, event: Event) -> Delivery {
        state.handles += 1;
        let handle = state.handles;
        let ordered = self.inner.layout.ordered;
        let key = event.ordering_key().filter(|_| ordered).map(str::to_owned);
        let appended_at = event.occurred_at;
        state.rows.insert(row.clone());
        state.out.insert(handle, Out { row, event_id: event.id.clone(), key, attempts });
        let lane = state.lane().unwrap_or(LaneTerm { lane: super::LANE, term: 0 });
        Delivery { handle, lane, event: Arc::new(event), position: None, attempts, ordered, appended_at }
    }
}

impl Waiting {
    /// Reads the rows of [`crate::sql::Takes::waiting`].
    fn read(rows: &[Row]) -> Self {
        let keys = rows.iter().filter_map(|row| row.first().cloned().flatten()).collect();
        let first = rows.first().and_then(|row| row.get(1).cloned().flatten()).and_then(|t| t.parse::<i64>().ok());
        let next_due = first.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or_default()));
        Self { keys, next_due, any: !rows.is_empty() }
    }
}
