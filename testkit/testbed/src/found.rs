//! The shared servers as a test sees them.

use super::{Certificates, LOCKED_ROLE, Running, Site, State};

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
        self.url_of("postgres", database)
    }

    /// A shared PostgreSQL by its name.
    pub(super) fn url_of(&self, server: &str, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port(server))
    }

    /// The shared PostgreSQL behind PgBouncer, which pools transactions over four connections per user and database. So
    /// a test that goes this way has a [`super::Database`] of its own.
    pub fn pgbouncer_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port("pgbouncer"))
    }

    /// The shared PostgreSQL behind a PgBouncer with the settings of Debian's package, which pools sessions.
    pub fn debian_pgbouncer_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port("pgbouncer-debian"))
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
    pub fn port(&self, server: &str) -> u16 {
        self.site(server).port
    }

    /// Where a server lives, with all its ports.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[expect(clippy::panic, reason = "for tests")]
    pub fn site(&self, server: &str) -> &Site {
        match self.state.servers.get(server) {
            Some(Running { site, process }) if process.is_running() => site,
            _ => panic!("{server} does not run: run cargo xtask services up"),
        }
    }

    /// What they show to those who want to talk in private.
    pub fn certificates(&self) -> Certificates {
        self.state.certificates()
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }
}
