//! Delivers to NATS JetStream.
//!
//! Every event is published with `Nats-Msg-Id`, its id, and `Nats-Expected-Stream`; it
//! counts as delivered when that stream has acknowledged it. Thousands are on their way at once over one connection; their
//! acknowledgements come back to one inbox.
//!
//! # The life of a connection
//!
//! It is opened at the first delivery: the servers are tried in the order given, and the stream is looked up. A stream that
//! is not there is an outage of the route with its name in it, or created if [`NatsOptions::create`] says how; one that
//! is there is never changed.
//!
//! A connection that is lost, a server that enters lame duck mode, a refused permission, or an acknowledgement that does
//! not come within [`NatsOptions::timeout`] ends it as a whole: everything unacknowledged is `Unavailable`, and the
//! client is made unable to come back by itself, so that nothing is published later that was already reported.
//!
//! # What the server keeps apart, and what not
//!
//! Inside the stream's duplicate window a second copy of an event on the same route is acknowledged, not stored; the
//! receipt says so. That goes for replays by an operator, too. Outside the window it is stored again.

mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod connection;
mod credentials;
mod deliver;
mod failures;
mod lag;
mod message;
mod options;
#[cfg(feature = "consumer")]
mod subscription;
mod window;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use deliver::Nats;
pub use options::{CreateStream, Login, NatsOptions};
#[cfg(feature = "consumer")]
pub use subscription::{NatsSubscription, NatsSubscriptionOptions, NatsTicket};

/// The target of everything this crate logs.
const LOG: &str = "postroom::nats";
