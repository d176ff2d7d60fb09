//! Real servers as the tests of every crate see them.
//!
//! `postroom_servers` starts and finds them, and all of it is here too. Tests take a [`Database`], a [`Schema`], a topic or a
//! queue each of the shared [`Servers`]. What breaks a server has a private [`Cluster`] or [`OwnServer`]; what breaks the way
//! to it goes through a [`FaultProxy`].

mod cluster;
mod collector;
mod database;
mod disk;
mod found;
mod impostor;
pub mod proxy;

pub use postroom_servers::*;

pub use cluster::{Cluster, ClusterOptions, faketime};
pub use collector::{Collector, Posted};
pub use database::{Database, Schema, unique_name};
pub use disk::SmallDisk;
pub use found::Servers;
pub use impostor::Impostor;
pub use proxy::FaultProxy;
