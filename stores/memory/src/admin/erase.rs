//! Erasing the payloads of a key.

use std::sync::Arc;

use jiff::Timestamp;
use postroom_admin::view::Erased;
use postroom_admin::{ERASED_HEADER, undelivered_payloads};
use postroom_core::{Actor, DeliveryState, Event, StoreError};

use crate::state::State;

impl State {
    pub(crate) fn erase_payloads(
        &mut self,
        key: &str,
        undelivered: bool,
        dry_run: bool,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Erased, StoreError> {
        let of_key = |event: &Event| event.ordering_key() == Some(key) && !event.headers.contains_key(ERASED_HEADER);
        let rows = self.log.iter().filter(|(_, row)| of_key(&row.event));
        let found: Vec<(i64, Arc<Event>)> = rows.map(|(number, row)| (number, Arc::clone(&row.event))).collect();
        let erased = Erased {
            store: self.name.clone(),
            key: key.to_owned(),
            events: found.len() as u64,
            dead_letters: found.iter().filter(|(number, _)| self.is_dead_letter(*number)).count() as u64,
            undelivered: found.iter().filter(|(number, _)| self.is_undelivered(*number)).count() as u64,
            bytes: found.iter().map(|(_, event)| event.payload.len() as u64).sum(),
        };
        if dry_run || found.is_empty() {
            return Ok(erased);
        }
        if erased.undelivered > 0 && !undelivered {
            return Err(undelivered_payloads(&erased));
        }
        for (number, event) in found {
            let mut event = Event::clone(&event);
            event.payload = "null".into();
            "application/json".clone_into(&mut event.content_type);
            event.headers.clear();
            event.headers.insert(ERASED_HEADER.to_owned(), now.to_string());
            let event = Arc::new(event);
            for lane in self.routes.values_mut().flat_map(|route| &mut route.lanes) {
                for row in lane.rows.values_mut().filter(|row| row.event.id == event.id) {
                    row.event = Arc::clone(&event);
                }
            }
            self.log.replace(number, event);
        }
        self.note(now, actor, "key.erase", key, erased.events);
        Ok(erased)
    }

    fn is_dead_letter(&self, number: i64) -> bool {
        self.parked_states(number).any(|state| state == DeliveryState::Dead)
    }

    /// Whether a route has still to deliver the event.
    fn is_undelivered(&self, number: i64) -> bool {
        let Some(lane) = self.log.get(number).map(|row| row.lane as usize) else { return false };
        let mut lanes = self.routes.values().filter_map(|route| route.lanes.get(lane));
        lanes.any(|lane| number > lane.hwm || lane.unsettled.contains(number))
            || self.parked_states(number).any(|state| state != DeliveryState::Dead)
    }

    /// The states of the event's deliveries that did not go straight through.
    fn parked_states(&self, number: i64) -> impl Iterator<Item = DeliveryState> + '_ {
        let id = self.log.get(number).map(|row| row.event.id.as_str());
        let rows = self.routes.values().flat_map(|route| &route.lanes).flat_map(|lane| lane.rows.values());
        rows.filter(move |row| Some(row.event.id.as_str()) == id).map(|row| row.state)
    }
}
