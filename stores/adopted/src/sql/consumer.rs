//! A route's consumer as statements: which events the inbox has of it, and recording those whose rows become done.

use std::sync::Arc;

use postroom_core::StoreError;

use super::settle::{meant, ours};
use super::{Writer, literal, made};
use crate::catalogue::Catalogue;
use crate::executor::Dialect;
use crate::inbox::InboxTexts;
use crate::mapping::{InboxTable, Mapping};

/// What is said to the inbox of a route's consumer.
#[derive(Debug)]
pub(crate) struct ConsumerTexts {
    /// Which of the ids in a JSON list, `$1`, the consumer has processed.
    pub(crate) processed: Arc<str>,
    /// Records the events of rows that are about to be done, as long as they are as they were read: values as in
    /// [`super::settle`]. Fields: `id`, `fence`, `event_id`.
    pub(crate) record: Arc<str>,
    inbox: InboxTexts,
}

impl ConsumerTexts {
    /// Checks the inbox and the consumer's name, and makes what is said to it.
    pub(crate) fn new(
        mapping: &Mapping,
        writer: &Writer<'_>,
        inbox: &InboxTable,
        found: &Catalogue,
        consumer: &str,
    ) -> Result<Self, StoreError> {
        let texts = InboxTexts::new(writer.dialect, inbox, found)?;
        texts.check_consumer(consumer)?;
        let (name, id) = (inbox.consumer.quoted(), inbox.id.quoted());
        let (table, consumer) = (found.table.quoted(), literal(consumer));
        let listed = match writer.dialect {
            Dialect::Postgres => "jsonb_array_elements_text($1::jsonb) as x(event_id)",
            Dialect::Sqlite => "(select value as event_id from json_each($1)) as x",
        };
        let value = texts.id_value("x.event_id");
        let processed = format!(
            "select x.event_id from {listed} \
             where exists (select 1 from {table} i where i.{name} = {consumer} and i.{id} = {value})"
        );
        let there = Writer { columns: &found.columns, ..writer.clone() };
        let (at, now) = inbox.at.as_ref().map_or_else(Default::default, |at| {
            (format!(", {}", at.quoted()), format!(", {}", there.stored_moment(at, &writer.now("$2"))))
        });
        // In the order of the ids: relays that share the table lock them in one order.
        let record = format!(
            "insert into {table} ({name}, {id}{at}) select {consumer}, {value}{now} from {}, {} t where {} \
             order by x.event_id on conflict ({name}, {id}) do nothing",
            writer.unpacked("$3", &["id", "fence", "event_id"]),
            mapping.table.quoted(),
            meant(mapping, writer, &ours(mapping, writer)),
        );
        Ok(Self { processed: made(processed), record: made(record), inbox: texts })
    }

    /// Says no to the id of an event that the inbox cannot hold.
    pub(crate) fn check(&self, event_id: &str) -> Result<(), StoreError> {
        self.inbox.check_id(event_id)
    }
}
