//! Delivers to Redis streams.
//!
//! Every event is one `XADD`. It counts as delivered when the server has answered with the entry's id, and, if
//! [`RedisOptions::wait_replicas`] asks for it, when so many replicas have it. Entries have fields:
//!
//! | envelope | fields |
//! | --- | --- |
//! | binary CloudEvents | `content-type`, `ce_id`, `ce_type`, …, the event's own headers, `data` |
//! | structured CloudEvents | `content-type`, `postroom-id`, `event` |
//! | raw, fields | `content-type`, `postroom-id`, …, `data` |
//!
//! Commands go out in pipelines of up to 64, several of them on their way at once over one connection; each answer is an
//! outcome of its own.
//!
//! # The life of a connection
//!
//! It is opened at the first delivery and does not come back by itself. When it is lost, or an answer takes longer than
//! [`RedisOptions::timeout`], everything unanswered is `Unavailable`: Redis may have it or not, so it is sent again with the
//! same id. A stream has no memory for ids; the consumer's inbox makes one of two. A server that has become a replica is left.
//!
//! # What an answer is worth
//!
//! What Redis has answered is in its memory. What a crash leaves of it is decided by its append-only file and its replicas:
//! `check` shows both.
//!
//! Beside the transport, [`RedisDedupWindow`] is a consumer's memory of ids.

mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod connection;
mod deliver;
mod failures;
mod lag;
mod message;
mod options;
mod window;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use deliver::Redis;
pub use options::RedisOptions;
pub use window::{RedisDedupWindow, RedisDedupWindowOptions};

/// The target of everything this crate logs.
const LOG: &str = "postroom::redis";
