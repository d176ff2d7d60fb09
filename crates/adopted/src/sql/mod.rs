//! A layout as statements, in the words of PostgreSQL or SQLite.
//!
//! Every statement is made once, when the table is opened. Values are numbered `$1`, `$2`, … in both databases.

mod assign;
mod bury;
mod claim;
pub(crate) mod columns;
pub(crate) mod inside;
mod mark;
pub(crate) mod moved;
pub(crate) mod operate;
mod settle;
mod take;
mod write;

use std::sync::Arc;

pub(crate) use claim::Claims;
pub(crate) use settle::Settles;
use settle::{meant, returned};
pub(crate) use take::{READ_FIXED, Takes};
pub(crate) use write::{Writer, literal};

use self::columns::Columns;
use crate::layout::{Death, Layout, Place, State};

/// The statements of one adopted table.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    pub(crate) settle: Settles,
    /// Copying into the table of dead letters, where there is one.
    pub(crate) bury: Vec<Arc<str>>,
}

impl Texts {
    pub(crate) fn new(layout: &Layout, writer: &Writer<'_>, dead_letters: &Columns, log: &Columns) -> Self {
        let bury = layout
            .dead_letters
            .as_ref()
            .map(|dead| bury::statements(layout, writer, dead, dead_letters, &settle::ours(layout, writer)));
        let bury = bury.map(Vec::from).unwrap_or_default();
        Self { settle: Settles::new(layout, writer, log), bury }
    }
}

/// Whether a row is pending, as the table tells it.
pub(crate) fn pending(layout: &Layout, writer: &Writer<'_>) -> String {
    match &layout.state {
        State::Words { place, pending, .. } if place.path.is_empty() => {
            // As the column's own type: words may be numbers, or of an enumeration.
            format!("{} = {}", writer.of(&place.column), literal(pending))
        }
        State::Words { place, pending, .. } => format!("{} = {}", writer.text(place), literal(pending)),
        State::Stamp(column) => format!("{} is null", writer.of(column)),
        State::Flag(column) => format!("not {}", writer.of(column)),
        State::Presence => "true".to_owned(),
    }
}

/// Whether a row is to be delivered, now or later, or somebody is at it.
pub(crate) fn open(layout: &Layout, writer: &Writer<'_>) -> String {
    let pending = pending(layout, writer);
    match layout.claimed() {
        Some(claimed) => format!("({pending} or {})", claim::is_claimed(layout, writer, claimed)),
        None => pending,
    }
}

/// The key of an event as text, as [`postroom_core::Event::ordering_key`] has it; nothing where events have none.
pub(crate) fn key(layout: &Layout, writer: &Writer<'_>) -> Option<String> {
    let text = |place: &Option<Place>| place.as_ref().map(|place| writer.text(place));
    match (text(&layout.event.key), text(&layout.event.aggregate_id)) {
        (Some(key), Some(aggregate)) => Some(format!("coalesce({key}, {aggregate})")),
        (key, aggregate) => key.or(aggregate),
    }
}

/// The same where order is kept by it.
pub(crate) fn order_key(layout: &Layout, writer: &Writer<'_>) -> Option<String> {
    key(layout, writer).filter(|_| layout.ordered)
}

/// Whether the side table keeps a row from being pending; `layout` is the placeholder of the layout's name.
fn not_aside(layout: &Layout, writer: &Writer<'_>, name: &str) -> Option<String> {
    (layout.death == Death::Aside).then(|| {
        let row = writer.text(&Place::column(layout.row.clone()));
        writer.nothing_aside(name, &format!("s.row_id = {row} and s.state = 'dead'"))
    })
}

/// A text that is put together once.
fn made(text: String) -> Arc<str> {
    text.into()
}
