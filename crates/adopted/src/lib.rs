//! Outbox tables that teams already have: read and written as a [`Layout`] says, with nothing changed about them.
//!
//! Knows what an adopted table is like and what to say to it; how a statement reaches the database is the store's
//! ([`Ground`]).

mod desk;
mod ground;
pub mod layout;
mod source;
mod sql;
mod store;
mod tables;

pub use ground::{Dialect, Ground, Row, Rows, Statement};
pub use layout::Layout;
pub use sql::columns::{Column, Columns, Holds};
pub use store::{Adopted, AdoptedOptions, Migrate};
