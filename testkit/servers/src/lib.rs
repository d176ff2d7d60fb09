//! Real servers for tests: fetched, started, found and ended.
//!
//! `cargo xtask services up` starts the shared ones and writes down where they are ([`State`]); a test that breaks its
//! server starts an [`OwnServer`]. No client of a server is here: what talks to them is in `postroom_testbed`,
//! so that `xtask` is built in seconds.

pub mod brokers;
mod certificates;
mod fetched;
mod own;
mod postmaster;
mod process;
mod server;
mod state;
mod system;

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
