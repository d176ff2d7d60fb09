//! The shared servers as a test sees them.

use super::{LOCKED_ROLE, Running, State};

/// The servers that `cargo xtask services up` has started.
#[derive(Debug, Clone)]
pub struct Servers {
    state: State,
}

impl Servers {
    /// Finds them.
    ///
    /// # Panics
    ///
    /// When they are not there: a test that could not run has failed.
    #[expect(clippy::panic, reason = "for tests")]
    pub fn find() -> Self {
        let path = State::path();
        match State::read() {
            Ok(Some(state)) => Self { state },
            Ok(None) => panic!("no servers at {}: run cargo xtask services up", path.display()),
            Err(error) => panic!("{error}"),
        }
    }

    /// The shared PostgreSQL.
    pub fn postgres_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port("postgres"))
    }

    /// The shared PostgreSQL behind PgBouncer, which pools transactions over two connections per user and database. So
    /// a test that goes this way has a [`super::Database`] of its own.
    pub fn pgbouncer_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port("pgbouncer"))
    }

    /// The shared PostgreSQL as the one role that needs a password, [`super::LOCKED_PASSWORD`].
    pub fn locked_url(&self, database: &str, password: &str) -> String {
        format!("postgres://{LOCKED_ROLE}:{password}@127.0.0.1:{}/{database}", self.port("postgres"))
    }

    /// Where a server listens on 127.0.0.1.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[expect(clippy::panic, reason = "for tests")]
    pub fn port(&self, server: &str) -> u16 {
        match self.state.servers.get(server) {
            Some(Running { port, process }) if process.is_running() => *port,
            _ => panic!("{server} does not run: run cargo xtask services up"),
        }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }
}
