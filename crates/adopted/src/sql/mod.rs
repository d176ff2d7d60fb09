//! A layout as statements, in the words of PostgreSQL or SQLite.
//!
//! Every statement is made once, when the table is opened. Values are numbered `$1`, `$2`, … in both databases.

mod assign;
pub(crate) mod bury;
pub(crate) mod columns;
pub(crate) mod operate;
mod settle;
mod take;
mod write;

use std::sync::Arc;

pub(crate) use settle::Settles;
pub(crate) use take::{READ_FIXED, Takes};
pub(crate) use write::{Writer, literal};

use self::columns::Columns;
use crate::layout::{Death, Layout, State};

/// The statements of one adopted table.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    pub(crate) take: Takes,
    pub(crate) settle: Settles,
    /// Copying into the table of dead letters, where there is one.
    pub(crate) bury: Vec<Arc<str>>,
}

impl Texts {
    pub(crate) fn new(layout: &Layout, writer: &Writer<'_>, dead_letters: &Columns) -> Self {
        let bury = layout.dead_letters.as_ref().map(|dead| bury::statements(layout, writer, dead, dead_letters));
        let bury = bury.map(Vec::from).unwrap_or_default();
        Self { take: Takes::new(layout, writer), settle: Settles::new(layout, writer), bury }
    }
}

/// Whether a row is pending, as the table tells it.
pub(crate) fn pending(layout: &Layout, writer: &Writer<'_>) -> String {
    match &layout.state {
        State::Words { place, pending, .. } if place.path.is_empty() => {
            // As the column's own type: words may be numbers, or of an enumeration.
            format!("t.{} = {}", place.column.quoted(), literal(pending))
        }
        State::Words { place, pending, .. } => format!("{} = {}", writer.text(place), literal(pending)),
        State::Stamp(column) => format!("t.{} is null", column.quoted()),
        State::Flag(column) => format!("not t.{}", column.quoted()),
        State::Presence => "true".to_owned(),
    }
}

/// Whether the side table keeps a row from being pending; `layout` is the placeholder of the layout's name.
fn not_aside(layout: &Layout, writer: &Writer<'_>, name: &str) -> Option<String> {
    (layout.death == Death::Aside).then(|| {
        let row = writer.text(&crate::layout::Place::column(layout.row.clone()));
        format!(
            "not exists (select 1 from {} s where s.layout = {name} and s.row_id = {row} and s.state = 'dead')",
            writer.own("sidecar")
        )
    })
}

/// A text that is put together once.
fn made(text: String) -> Arc<str> {
    text.into()
}
