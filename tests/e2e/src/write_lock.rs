//! The write lock of a SQLite file, held by a test: while it is held, no other process is in the middle of a commit.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tokio::runtime::Runtime;

/// The write lock of a file until this is dropped.
#[derive(Debug)]
pub struct WriteLock {
    runtime: Runtime,
    connection: Option<SqliteConnection>,
}

impl WriteLock {
    /// Waits for the lock, at most a minute.
    pub fn take(file: &Path) -> Self {
        let runtime = Runtime::new().unwrap();
        let options = SqliteConnectOptions::new().filename(file).busy_timeout(std::time::Duration::from_mins(1));
        let connection = runtime.block_on(async {
            let mut connection = options.connect().await.unwrap();
            connection.execute("begin immediate").await.unwrap();
            connection
        });
        Self { runtime, connection: Some(connection) }
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Closing rolls back.
            self.runtime.block_on(connection.close()).unwrap();
        }
    }
}
