//! Real servers for the tests of every crate.
//!
//! `cargo xtask services up` starts the shared ones and writes down where they are ([`State`]); tests find them with
//! `Servers` and take a `Database`, a `Schema`, a topic or a queue each. What breaks a server has a private `Cluster` or [`OwnServer`]; what breaks
//! the way to it goes through a `FaultProxy`. Without the feature `servers` only the parts are here that start, find
//! and end servers, so that `xtask` needs no client.

pub mod brokers;
mod certificates;
mod fetched;
mod own;
mod postmaster;
mod process;
mod server;
mod state;
mod system;

#[cfg(feature = "servers")]
mod cluster;
#[cfg(feature = "servers")]
mod collector;
#[cfg(feature = "servers")]
mod database;
#[cfg(feature = "servers")]
mod found;
#[cfg(feature = "servers")]
mod impostor;
#[cfg(feature = "servers")]
pub mod proxy;

/// The shared PostgreSQL of the oldest version that is served.
pub const OLDEST_POSTGRES: &str = "postgres-14";
/// The shared PostgreSQL of the newest version that is served.
pub const NEWEST_POSTGRES: &str = "postgres-18";

pub use certificates::{CLIENT_NAME, Certificates, Identity};
pub use fetched::{debian_mirror, debian_release, postgres_programs};
pub use own::OwnServer;
pub use postmaster::{LOCKED_PASSWORD, LOCKED_ROLE, Postmaster};
pub use process::Process;
pub use server::{PATIENCE, Server, Site, end_leftovers, start};
pub use state::{Running, State};
pub use system::{
    as_postgres, free_port, is_root, other_program, owned_folder, program, run, tail, unique_folder, wait_until,
};

#[cfg(feature = "servers")]
pub use cluster::{Cluster, ClusterOptions, faketime};
#[cfg(feature = "servers")]
pub use collector::{Collector, Posted};
#[cfg(feature = "servers")]
pub use database::{Database, Schema, unique_name};
#[cfg(feature = "servers")]
pub use found::Servers;
#[cfg(feature = "servers")]
pub use impostor::Impostor;
#[cfg(feature = "servers")]
pub use proxy::FaultProxy;
