//! The transports that need no other process: handlers in this one, stdout, and nowhere.

mod codes;
mod handler;
mod noop;
mod stdout;

pub use codes::CODES;
pub use handler::{Handlers, Incoming};
pub use noop::Noop;
pub use stdout::Stdout;
