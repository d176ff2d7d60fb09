//! A database or a schema for one test: gone when the test passes, kept to look into when it fails.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::sync::Mutex;

use super::Servers;

/// The database every cluster begins with; schemas and administration live there.
const SHARED: &str = "postgres";

/// A name nobody else uses, also not another test process that has or had our process id.
pub fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{prefix}_{process}_{number}_{:06x}", fastrand::u32(..1 << 24))
}

/// A database of one's own, about 20 ms. For tests through PgBouncer and those that ask the whole database something.
#[derive(Debug)]
pub struct Database {
    servers: Servers,
    server: &'static str,
    name: String,
    /// Goes with the last copy of it.
    _template: Option<Arc<Database>>,
}

impl Database {
    /// Makes one on the shared PostgreSQL.
    pub async fn create(servers: &Servers) -> Self {
        Self::create_on(servers, "postgres").await
    }

    /// Makes one on the shared PostgreSQL of this name: `postgres`, [`super::OLDEST_POSTGRES`] or [`super::NEWEST_POSTGRES`].
    pub async fn create_on(servers: &Servers, server: &'static str) -> Self {
        Self::make(servers, server, None).await
    }

    /// Makes one with what `fill` puts into a database: it is asked once for many of them, which are copies.
    pub async fn copy_on(servers: &Servers, server: &'static str, fill: impl AsyncFnOnce(&Self)) -> Self {
        static TEMPLATES: Mutex<Vec<Weak<Database>>> = Mutex::const_new(Vec::new());
        let mut templates = TEMPLATES.lock().await;
        templates.retain(|template| template.strong_count() > 0);
        let known = templates.iter().filter_map(Weak::upgrade).find(|template| template.server == server);
        let template = if let Some(template) = known {
            template
        } else {
            let template = Arc::new(Self::create_on(servers, server).await);
            fill(&template).await;
            let (url, name) = (servers.url_of(server, SHARED), &template.name);
            run(&url, format!("alter database {name} allow_connections false")).await;
            let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
            run(&url, end).await;
            templates.push(Arc::downgrade(&template));
            template
        };
        drop(templates);
        Self::make(servers, server, Some(template)).await
    }

    async fn make(servers: &Servers, server: &'static str, template: Option<Arc<Self>>) -> Self {
        let name = unique_name("test");
        let of = template.as_ref().map_or("template1", |template| &template.name);
        run(&servers.url_of(server, SHARED), format!("create database {name} template {of}")).await;
        Self { servers: servers.clone(), server, name, _template: template }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Directly.
    pub fn url(&self) -> String {
        self.servers.url_of(self.server, &self.name)
    }

    /// Through PgBouncer.
    pub fn pgbouncer_url(&self) -> String {
        self.servers.pgbouncer_url(&self.name)
    }

    /// Through PgBouncer as Debian ships it.
    pub fn debian_pgbouncer_url(&self) -> String {
        self.servers.debian_pgbouncer_url(&self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // By force: PgBouncer and pools that close later still hold connections.
        drop_unless_failed(&self.servers.url_of(self.server, SHARED), "database", &self.name, "with (force)");
    }
}

/// The name of a schema of one's own in the shared database: cheap, for tests that stay inside it. It is not made here:
/// whoever owns the tables makes the schema too. Gone with all that is in it when the test passes.
#[derive(Debug)]
pub struct Schema {
    servers: Servers,
    name: String,
}

impl Schema {
    /// Chooses one on the shared PostgreSQL.
    pub fn choose(servers: &Servers) -> Self {
        Self { servers: servers.clone(), name: unique_name("test") }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database it is in.
    pub fn url(&self) -> String {
        self.servers.postgres_url(SHARED)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        drop_unless_failed(&self.url(), "schema", &self.name, "cascade");
    }
}

/// Runs on a thread of its own, for a runtime cannot wait inside a drop.
#[expect(clippy::print_stderr, reason = "the test's output says where to look")]
fn drop_unless_failed(url: &str, kind: &str, name: &str, how: &str) {
    if std::thread::panicking() {
        eprintln!("the {kind} {name} is kept: {url}");
        return;
    }
    let (url, sql) = (url.to_owned(), format!("drop {kind} if exists {name} {how}"));
    let dropped = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(|runtime| runtime.block_on(run(&url, sql)))
    });
    assert!(matches!(dropped.join(), Ok(Ok(()))), "the {kind} {name} cannot be dropped");
}

#[expect(clippy::panic, reason = "for tests")]
async fn run(url: &str, sql: String) {
    let done = async {
        let mut connection = PgConnection::connect(url).await?;
        connection.execute(AssertSqlSafe(sql.as_str())).await?;
        connection.close().await
    };
    if let Err(error) = done.await {
        panic!("{sql}: {error}");
    }
}
