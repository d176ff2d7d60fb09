//! Outbox tables that teams already have: read and written as a [`Mapping`] says, with nothing changed about them.
//!
//! Knows what an adopted table is like and what to say to it; how a statement reaches the database is the store's
//! ([`SqlExecutor`]).

mod admin;
mod catalogue;
mod codes;
mod diagnose;
#[doc(hidden)]
mod executor;
mod inbox;
pub mod mapping;
mod source;
mod sql;
mod states;
mod store;
pub mod survey;
mod tables;

pub use catalogue::{Catalogue, missing_table};
pub use codes::CODES;
pub use executor::{Dialect, OpenTransaction, Row, Rows, SqlExecutor, Statement};
pub use inbox::{InboxTexts, ROWS_AT_ONCE};
pub use mapping::Mapping;
pub use sql::columns::{Column, Columns, Holds};
pub use states::{STEP_TRIES, StateTable, StateTexts};
pub use store::{Adopted, AdoptedOptions, Migrate};
