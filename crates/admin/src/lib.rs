//! The operator's side of a store, written once for every database.
//!
//! Commands, API and console ask the five traits of [`crate::Admin`]. Their SQL is here: statements that read the same
//! on PostgreSQL and SQLite, run by what a store lends ([`Backend`], [`Session`]). What truly differs between stores (where a
//! route has settled what, how many deliveries are due, retention, locks) stays with the store, as methods of [`LogBackend`]
//! and [`LogSession`].
//!
//! [`LogAdmin`] is the admin of a native log. Adopted tables use the same [`tables`] and the same code for them: [`tokens`],
//! [`audit`], [`replays`], [`throughput`].

mod admin;
mod appended;
pub mod audit;
mod backend;
mod dead;
mod deliveries;
mod erase;
mod groups;
pub mod inbox;
mod keys;
mod log;
mod replay;
pub mod replays;
pub mod routes;
mod row;
mod selection;
mod statement;
mod step;
mod summary;
pub mod tables;
pub mod throughput;
mod token;
pub mod tokens;
mod undelivered;
pub mod view;

pub use admin::{
    Access, Admin, ERASED_HEADER, GROUPED_MAX, Inspect, ManagedStore, Operate, Page, Replays, Selection, Verify,
    once_key, undelivered_payloads,
};
pub use backend::{
    Answer, Backend, Execute, Fault, Job, LogBackend, LogJob, LogSession, Session, SessionFuture, SettledDelivery,
    SettledStep, run_read, run_write,
};
pub use groups::{SubGroup, merge};
pub use log::LogAdmin;
pub use replay::{Pace, REPLAY_STEP, ReplayChange, ReplayOrder, check_selection, no_replay, replay_at_once};
pub use row::{Cell, Row};
pub use selection::{on_delivery, on_log};
pub use statement::{Dialect, Statement, Value};
pub use summary::Summary;
pub use token::{NewToken, Role, Scope, TokenRow};
pub use undelivered::Undelivered;

use jiff::Timestamp;

/// A time as microseconds since 1970, which is how tables hold it.
pub fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
