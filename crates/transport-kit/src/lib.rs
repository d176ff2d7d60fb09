//! Shared by transports: the task behind one ([`driver`]), what workers are told and answer ([`worker`]), and how a kind of transport
//! is configured ([`TransportKind`], with the feature `config`).
//!
//! A transport's crate has its keys and their reader in `config.rs`, and a `KIND` that names them; the server lists the kinds.

pub mod driver;
#[cfg(feature = "config")]
mod kind;
#[cfg(feature = "config")]
mod lag;
#[cfg(feature = "config")]
mod reader;
pub mod worker;

#[cfg(feature = "config")]
pub use kind::{Configured, Encoding, TransportKind};
#[cfg(feature = "config")]
pub use lag::LAG_EVERY;
#[cfg(feature = "config")]
pub use reader::{ALLOW_PLAIN_PASSWORD, TargetReader};
