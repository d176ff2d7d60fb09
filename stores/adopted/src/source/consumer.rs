//! The consumer of a route: events that the inbox has of it are done without their handler, and those that are delivered are
//! recorded in the transaction that marks their rows.

use std::collections::HashSet;
use std::sync::Arc;

use postroom_core::{Event, RouteSpec, StoreError, StoreErrorKind};
use serde_json::json;

use super::row::{Due, Unreadable, unreadable};
use super::settle::Sorted;
use super::{PendingRow, Shared};
use crate::executor::{Row, Statement};
use crate::sql::ConsumerTexts;
use crate::store::Inner;

/// A row that was read, with its event.
pub(super) type ReadRow = (PendingRow, Result<Event, Unreadable>);

/// The consumer of a route.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(super) name: String,
    pub(super) texts: ConsumerTexts,
}

impl Consumer {
    /// Opens the inbox of the route's consumer, if it has one.
    pub(crate) async fn open(inner: &Inner, route: &RouteSpec) -> Result<Option<Self>, StoreError> {
        let Some(name) = &route.consumer else { return Ok(None) };
        let Some(inbox) = &inner.mapping.inbox else {
            let message = format!(
                "route {:?} has the consumer {name:?}, and the mapping of store {:?} names no inbox",
                route.name, inner.name
            );
            return Err(StoreError::new(StoreErrorKind::Invalid, "open", message)
                .hint("name the consumers' table: `inbox.table` in the mapping"));
        };
        let found = inner.executor.catalogue(&inbox.table).await?;
        let texts = ConsumerTexts::new(&inner.mapping, &inner.writer(), inbox, &found, name)?;
        Ok(Some(Self { name: name.clone(), texts }))
    }
}

impl Shared {
    /// Reads a row. An event whose id the consumer's inbox cannot hold is as unreadable as one without an id.
    pub(super) fn due(&self, row: Row) -> Due {
        let due = Due::read(&self.inner.mapping, self.inner.limits, row);
        let Some(consumer) = &self.consumer else { return due };
        let event = due.event.and_then(|event| match consumer.texts.check(&event.id) {
            Ok(()) => Ok(event),
            Err(error) => Err(Unreadable { event: Box::new(event), why: Box::new(unreadable(error.to_string())) }),
        });
        Due { event, ..due }
    }

    /// Moves the rows of events that the consumer has processed to those that are done. Where the table is ours alone, rows of
    /// an event that is in our hands already are left out, too: they are read again when that one is settled.
    pub(super) async fn unprocessed(&self, rows: Vec<ReadRow>, done: &mut Sorted) -> Result<Vec<ReadRow>, StoreError> {
        let Some(consumer) = self.consumer.as_ref().filter(|_| !rows.is_empty()) else { return Ok(rows) };
        // Before the inbox is asked: what leaves our hands meanwhile stands in it.
        let mut in_hand: HashSet<String> = self.state().out.values().map(|out| out.event_id.clone()).collect();
        let ids: Vec<&str> = rows.iter().filter_map(|(_, event)| Some(event.as_ref().ok()?.id.as_str())).collect();
        let asked = Statement::new(Arc::clone(&consumer.texts.processed)).bind(json!(ids).to_string());
        let found = self.inner.executor.look("take", vec![asked]).await?;
        let processed: HashSet<String> = found.into_iter().flatten().flatten().flatten().collect();
        let (mut open, is_alone) = (Vec::with_capacity(rows.len()), self.inner.mapping.has_owner());
        for (out, event) in rows {
            match event {
                Ok(event) if processed.contains(&event.id) => {
                    let row = out.row.clone();
                    tracing::info!(
                        route = self.route.name,
                        consumer = consumer.name,
                        event_id = event.id,
                        row,
                        "row is done without its handler: the inbox has the event"
                    );
                    done.delivered(&PendingRow { event_id: event.id, ..out });
                }
                Ok(event) if is_alone && !in_hand.insert(event.id.clone()) => {}
                event => open.push((out, event)),
            }
        }
        Ok(open)
    }
}
