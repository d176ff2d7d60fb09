//! A private PostgreSQL as a campaign breaks it: crashed, restarted, its sessions ended. Every call waits until it is so.

use postroom_testbed::Cluster;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use tokio::runtime::Runtime;

/// A cluster of one's own.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    runtime: Runtime,
}

impl Server {
    /// Starts one.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // Processes are killed here, not the machine: what they wrote is there without waiting for a disk.
        Self { cluster: runtime.block_on(Cluster::start(&[("fsync", "off")])), runtime }
    }

    /// How to connect to it.
    pub fn url(&self) -> String {
        self.cluster.url("postgres")
    }

    /// Kills all its processes at once and starts it again, which recovers what was committed.
    pub fn crash(&self) {
        self.runtime.block_on(async {
            self.cluster.kill_postmaster().await;
            self.cluster.start_again().await;
        });
    }

    /// Stops it in good order, whatever its clients are doing, and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Stops it in good order, whatever its clients are doing.
    pub fn stop(&self) {
        self.runtime.block_on(self.cluster.stop_fast());
    }

    /// Starts it after a stop.
    pub fn start_again(&self) {
        self.runtime.block_on(self.cluster.start_again());
    }

    /// Ends the sessions of all relays; how many there were.
    pub fn end_sessions(&self) -> usize {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'postroom'";
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.url()).await.unwrap();
            let ended = sqlx::query(end).fetch_all(&mut connection).await.unwrap();
            ended.iter().filter(|row| row.get::<bool, _>(0)).count()
        })
    }
}
