//! Outbox tables that teams already have: read and written as a [`Layout`] says, with nothing changed about them.
//!
//! Knows what an adopted table is like and what to say to it; how a statement reaches the database is the store's
//! ([`Ground`]).

mod catalogue;
mod desk;
mod examine;
#[doc(hidden)]
mod ground;
pub mod guess;
mod inbox;
pub mod layout;
mod source;
mod sql;
mod states;
mod store;
pub mod survey;
mod tables;

pub use catalogue::{Catalogue, missing_table};
pub use ground::{Dialect, Ground, Held, Row, Rows, Statement};
pub use inbox::{InboxTexts, ROWS_AT_ONCE};
pub use layout::Layout;
pub use sql::columns::{Column, Columns, Holds};
pub use states::{STEP_TRIES, StateTable, StateTexts};
pub use store::{Adopted, AdoptedOptions, Migrate};
