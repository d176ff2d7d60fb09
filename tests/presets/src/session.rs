//! A session of the application's own with a transaction that is open while something else happens.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use tokio::runtime::Handle;

use crate::System;

/// An open transaction; rolled back when it is dropped.
#[derive(Debug)]
pub struct Session {
    connection: PgConnection,
    runtime: Handle,
}

impl Session {
    pub(crate) fn begin(url: &str, runtime: &Handle) -> Self {
        let connection = runtime.block_on(PgConnection::connect(url)).unwrap();
        let mut session = Self { connection, runtime: runtime.clone() };
        session.script("begin");
        session
    }

    /// Runs statements in it.
    pub fn script(&mut self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        self.runtime.block_on(self.connection.execute(sql)).unwrap();
    }

    /// Commits.
    pub fn commit(mut self) {
        self.script("commit");
    }

    /// Waits until a relay waits for what this transaction has locked: it has delivered such a row and wants to mark it.
    pub fn until_waited_for(&self, system: &System) {
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() \
                       and application_name = 'postroom' and wait_event_type = 'Lock'";
        postroom_e2e::until("a relay waits for our transaction", || system.query(waiting) != ["0"]);
    }
}
