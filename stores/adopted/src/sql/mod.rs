//! A mapping as statements, in the words of PostgreSQL or SQLite.
//!
//! Every statement is made once, when the table is opened. Values are numbered `$1`, `$2`, … in both databases.

pub(crate) mod archive;
mod assign;
mod claim;
pub(crate) mod columns;
mod consumer;
mod dead_letters;
pub(crate) mod functions;
pub(crate) mod further;
pub(crate) mod inside;
mod mark;
pub(crate) mod operate;
mod settle;
mod take;
mod write;

use std::sync::Arc;

use postroom_core::Limits;

pub(crate) use claim::Claims;
pub(crate) use consumer::ConsumerTexts;
pub(crate) use settle::Settles;
use settle::{meant, returned};
pub(crate) use take::{READ_FIXED, Takes};
pub(crate) use write::{Writer, length_instead, literal};

use self::columns::Columns;
use self::further::Entering;
use crate::mapping::{ColumnPath, Death, Mapping, State};

/// The statements of one adopted table.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    pub(crate) settle: Settles,
    /// Copying into the table of dead letters, where there is one.
    pub(crate) dead_letters: Vec<Arc<str>>,
    /// What the first route says of the entries of others, where a table may have several.
    pub(crate) entering: Option<Entering>,
}

impl Texts {
    pub(crate) fn new(
        mapping: &Mapping,
        writer: &Writer<'_>,
        limits: Limits,
        dead_letters: &Columns,
        log: &Columns,
    ) -> Self {
        let copies = mapping
            .dead_letters
            .as_ref()
            .map(|dead| dead_letters::statements(mapping, writer, dead, dead_letters, &settle::ours(mapping, writer)));
        let copies = copies.map(Vec::from).unwrap_or_default();
        let entering = mapping.may_have_several().then(|| Entering::new(mapping, writer, limits));
        Self { settle: Settles::new(mapping, writer, log), dead_letters: copies, entering }
    }
}

/// Whether a row is pending, as the table tells it.
pub(crate) fn pending(mapping: &Mapping, writer: &Writer<'_>) -> String {
    match &mapping.state {
        State::Words { path, pending, .. } if path.path.is_empty() => {
            // As the column's own type: words may be numbers, or of an enumeration.
            format!("{} = {}", writer.of(&path.column), literal(pending))
        }
        State::Words { path, pending, .. } => format!("{} = {}", writer.text(path), literal(pending)),
        State::Stamp(column) => format!("{} is null", writer.of(column)),
        State::Flag(column) => format!("not {}", writer.of(column)),
        State::Presence => "true".to_owned(),
    }
}

/// Whether a row is to be delivered, now or later, or somebody is at it.
pub(crate) fn open(mapping: &Mapping, writer: &Writer<'_>) -> String {
    let pending = pending(mapping, writer);
    match mapping.claimed() {
        Some(claimed) => format!("({pending} or {})", claim::is_claimed(mapping, writer, claimed)),
        None => pending,
    }
}

/// The key of an event as text, as [`postroom_core::Event::ordering_key`] has it; nothing where events have none.
pub(crate) fn key(mapping: &Mapping, writer: &Writer<'_>) -> Option<String> {
    let text = |path: &Option<ColumnPath>| path.as_ref().map(|path| writer.text(path));
    match (text(&mapping.event.key), text(&mapping.event.aggregate_id)) {
        (Some(key), Some(aggregate)) => Some(format!("coalesce({key}, {aggregate})")),
        (key, aggregate) => key.or(aggregate),
    }
}

/// The same where order is kept by it.
pub(crate) fn order_key(mapping: &Mapping, writer: &Writer<'_>) -> Option<String> {
    key(mapping, writer).filter(|_| mapping.ordered)
}

/// Whether the side table keeps a row from being pending; `mapping` is the placeholder of the mapping's name.
fn not_parked(mapping: &Mapping, writer: &Writer<'_>, name: &str) -> Option<String> {
    let dead = match mapping.death {
        Death::Parked => "s.state = 'dead'",
        Death::AsDone => "s.held = 1",
        Death::Word(_) => return None,
    };
    let row = writer.text(&ColumnPath::column(mapping.row.clone()));
    Some(writer.nothing_parked(name, &format!("s.row_id = {row} and {dead}")))
}

/// A text that is put together once.
fn made(text: String) -> Arc<str> {
    text.into()
}
