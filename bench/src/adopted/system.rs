//! A system in a database of its own, and the relay that its preset describes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use postroom_core::{Delivery, RouteHealth, Verdict};
use postroom_relay::{Observer, RouteObserver};
use postroom_server::config::{Preset, Sources, load};
use postroom_server::relay::{RunOptions, run};
use sqlx::{AssertSqlSafe, Executor, PgPool};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::postgres::Server;

/// One of the systems.
pub(super) struct System {
    pub(super) pool: PgPool,
    pub(super) sources: Sources,
    _folder: TempDir,
}

impl System {
    /// Its tables, made by its own DDL, and its configuration: the preset, these variables, and a file on top.
    pub(super) async fn new(server: &Server, preset: &str, variables: &[(&str, String)], file: &str) -> Self {
        let database = format!("bench_{preset}");
        server.sql(format!("drop database if exists {database} with (force)")).await;
        server.sql(format!("create database {database}")).await;
        let pool = PgPool::connect(&server.url(&database)).await.unwrap();
        let ddl = Preset::named(preset).unwrap().ddl();
        pool.execute(AssertSqlSafe(ddl)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("postroom.toml");
        std::fs::write(&path, file).unwrap();
        let mut env: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        env.insert("DATABASE_URL".to_owned(), server.url(&database));
        let sources = Sources {
            file: Some(path),
            preset: Some(preset.to_owned()),
            env,
            flags: Vec::new(),
            cwd: folder.path().to_owned(),
        };
        Self { pool, sources, _folder: folder }
    }

    /// Does something in its database.
    pub(super) async fn sql(&self, text: &'static str) {
        self.pool.execute(text).await.unwrap();
    }

    /// Rows a second of a relay, from its start until this many are settled.
    pub(super) async fn relayed(&self, rows: usize) -> f64 {
        let config = load(&self.sources).unwrap();
        let counter = Arc::new(Counter { left: AtomicUsize::new(rows), done: Notify::new() });
        let (start, watched) = (Instant::now(), Arc::clone(&counter));
        let mut took = None;
        let until = async {
            watched.done.notified().await;
            took = Some(start.elapsed());
        };
        let options = RunOptions::default();
        run(&config, options, counter, until).await.unwrap();
        rows as f64 / took.expect("it ended when all were settled").as_secs_f64()
    }
}

/// Counts what is settled.
#[derive(Debug)]
struct Counter {
    left: AtomicUsize,
    done: Notify,
}

impl Observer for Counter {
    fn route(self: Arc<Self>, _: &str, _: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for Counter {
    fn settled(&self, _: &Delivery, verdict: &Verdict) {
        assert!(matches!(verdict, Verdict::Delivered(_)), "{verdict:?}");
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
    }

    fn health(&self, health: &RouteHealth) {
        if !health.message.is_empty() {
            println!("  the route is {}: {}", health.state.as_str(), health.message);
        }
    }
}
