//! Events that no queue takes: one warning per routing key, whatever becomes of the event.
//!
//! What becomes of it is the business of [`crate::options::Unroutable`].

use std::collections::HashSet;

use postroom_core::Event;

use crate::LOG;
use crate::options::{RabbitMqOptions, Unroutable};

/// Maximum number of routing keys that are warned about. Keys may have ids in them.
const WARNED_KEYS_MAX: usize = 1000;

/// The routing keys that were warned about, from one start of the transport to its end.
#[derive(Debug, Default)]
pub(crate) struct Unroutables {
    warned: HashSet<String>,
}

impl Unroutables {
    /// Warns of an event that came back, if it is the first of its routing key.
    pub(crate) fn warn(&mut self, route: &str, options: &RabbitMqOptions, event: &Event) {
        let Ok(routing_key) = options.routing_key.render(event) else { return };
        if self.warned.contains(&*routing_key) || self.warned.len() >= WARNED_KEYS_MAX {
            return;
        }
        let becomes = match options.unroutable {
            Unroutable::Retry => "tried again",
            Unroutable::Dead => "a dead letter",
            Unroutable::Accept => "counted as delivered",
        };
        tracing::warn!(
            target: LOG, route, code = "rabbitmq.unroutable", exchange = options.exchange_name(),
            routing_key = &*routing_key, event_id = event.id, event_type = event.event_type, becomes,
            "no queue takes events with this routing key"
        );
        self.warned.insert(routing_key.into_owned());
    }
}
