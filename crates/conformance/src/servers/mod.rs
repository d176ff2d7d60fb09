//! Real servers for the tests of every crate.
//!
//! `cargo xtask services up` starts the shared ones and writes down where they are ([`State`]); tests find them with
//! `Servers` and take a `Database` or a `Schema` each. What breaks a server has a private `Cluster`; what breaks
//! the way to it goes through a `FaultProxy`. Without the feature `servers` only the parts are here that start, find
//! and end servers, so that `xtask` needs no client.

mod postmaster;
mod process;
mod state;
mod system;

#[cfg(feature = "servers")]
mod cluster;
#[cfg(feature = "servers")]
mod database;
#[cfg(feature = "servers")]
mod found;
#[cfg(feature = "servers")]
pub mod proxy;

pub use postmaster::{LOCKED_PASSWORD, LOCKED_ROLE, Postmaster};
pub use process::Process;
pub use state::{Running, State};
pub use system::{as_postgres, free_port, is_root, owned_folder, program, run, tail, unique_folder, wait_until};

#[cfg(feature = "servers")]
pub use cluster::{Cluster, ClusterOptions, faketime};
#[cfg(feature = "servers")]
pub use database::{Database, Schema, unique_name};
#[cfg(feature = "servers")]
pub use found::Servers;
#[cfg(feature = "servers")]
pub use proxy::FaultProxy;
