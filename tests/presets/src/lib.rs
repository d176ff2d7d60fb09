//! A system that a preset takes over: its database with its own tables, its own environment variables, and the real
//! `postroom` beside them. Tests see what its team sees: SQL, commands, brokers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what cannot be made or run fails the test"
)]

mod kafka;
mod program;
mod session;

use std::ops::{Deref, DerefMut};
use std::process::Command;

use postroom_e2e::World;
use postroom_testbed::brokers::RabbitMq;
use postroom_testbed::{Database, Servers, unique_name};
use serde_json::Value;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _, ValueRef as _};
use tokio::runtime::Runtime;

pub use kafka::{Kafka, Member, Record};
pub use program::Program;
pub use session::Session;

/// The handler that writes down what it is given.
const HANDLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/handlers/handler.py");

/// The command of our handler, as a variable says it.
pub fn handler() -> String {
    serde_json::json!(["python3", HANDLER]).to_string()
}

/// What a path answers, with this header: the status and the text.
pub fn get(address: &str, path: &str, header: &str) -> (String, String) {
    let url = format!("http://{address}{path}");
    let said = Command::new("curl").args(["-s", "-w", "\n%{http_code}", "-H", header, &url]).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// One system, with everything of its own.
#[derive(Debug)]
pub struct System {
    world: World,
    runtime: Runtime,
    database: Database,
}

impl System {
    /// A database with the tables that the preset expects, made as its documents say: `preset show NAME --ddl`.
    pub fn new(preset: &str) -> Self {
        let system = Self::bare(preset);
        let ddl = system.ok(&["preset", "show", preset, "--ddl"]);
        system.script(&ddl);
        system
    }

    /// An empty database, with the preset chosen.
    pub fn bare(preset: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let database = runtime.block_on(Database::create(&Servers::find()));
        let mut world = World::new("");
        world.set("DATABASE_URL", &database.url());
        world.set("POSTROOM_PRESET", preset);
        Self { world, runtime, database }
    }

    /// Gives the route of this name our handler.
    pub fn handler(mut self, route: &str) -> Self {
        self.set(&format!("POSTROOM_ROUTE__{route}__TO__EXEC__COMMAND"), &handler());
        self
    }

    /// From now on the handler refuses these types or ids.
    pub fn refuse(&self, what: &str) {
        self.write("refused", what);
    }

    /// What the handler was given.
    pub fn received(&self) -> Vec<Value> {
        let lines = std::fs::read_to_string(self.path("received")).unwrap_or_default();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Lets a relay work until it is so, and stops it. For what stays in back-off, which a drain would wait for.
    pub fn work_until(&self, what: &str, so: impl FnMut() -> bool) {
        let relay = self.relay("relay");
        postroom_e2e::until("the relay has started", || self.log("relay").contains("relay started"));
        postroom_e2e::until(what, so);
        relay.stop();
    }

    /// Delivers everything to its end, and ends.
    pub fn drain(&self) {
        self.ok(&["relay", "run", "--drain"]);
    }

    /// A virtual host of RabbitMQ of its own: how to connect to it.
    pub fn virtual_host(&self) -> String {
        let (servers, name) = (Servers::find(), unique_name("presets"));
        let site = servers.site("rabbitmq");
        RabbitMq::control(site, &["add_vhost", &name]).unwrap();
        RabbitMq::control(site, &["set_permissions", "-p", &name, "guest", ".*", ".*", ".*"]).unwrap();
        format!("amqp://guest:guest@127.0.0.1:{}/{name}", site.port)
    }

    /// Where the database is.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Begins a transaction of the application's.
    pub fn begin(&self) -> Session {
        Session::begin(&self.url(), self.runtime.handle())
    }

    /// Runs statements as the application would.
    pub fn script(&self, sql: &str) {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
            connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    /// What a query of the system's own answers: each row as psql shows it, with spaces between its columns.
    pub fn query(&self, sql: &str) -> Vec<String> {
        let text = |row: &PgRow, n: usize| {
            let value = row.try_get_raw(n).unwrap();
            if value.is_null() { "null".to_owned() } else { value.as_str().unwrap().to_owned() }
        };
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
            // By the simple protocol, which answers with texts.
            let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            let line = |row: &PgRow| (0..row.len()).map(|n| text(row, n)).collect::<Vec<_>>().join(" ");
            rows.iter().map(line).collect()
        })
    }

    /// Runs something of a broker's client to its end.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl Deref for System {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for System {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}
