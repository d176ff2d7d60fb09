//! A shop in a database of its own, a real relay with a route for workers, and what must be there in the end.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use postroom_e2e::{Running, World, until};
use postroom_testbed::{Database, Servers, free_port};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::runtime::Runtime;

use crate::{clients, copy};

/// A shop whose events a relay gives to workers of the route `mailer`.
#[derive(Debug)]
pub struct Shop {
    relay: Running,
    token: String,
    port: u16,
    world: World,
    database: Database,
    runtime: Runtime,
}

impl Shop {
    /// Makes one, and starts its relay.
    pub fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let database = runtime.block_on(Database::create(&Servers::find()));
        let port = free_port().unwrap();
        let config = format!(
            "store.main.url = {:?}\nhttp.listen = \"127.0.0.1:{port}\"\n\n[[route]]\nname = \"mailer\"\n\
             match = [\"order.*\"]\nto = {{ pull = {{}} }}\n",
            database.url()
        );
        let world = World::with("", &config);
        let token = world.ok(&["token", "create", "mailer", "--role", "operator"]).trim().to_owned();
        let relay = world.relay("relay");
        until("the relay has started", || world.log("relay").contains("relay started"));
        let shop = Self { relay, token, port, world, database, runtime };
        shop.sql("create table orders (id text primary key, total int not null)");
        shop.sql("create table booked (order_id text not null, total int not null)");
        shop
    }

    fn sql(&self, statement: &str) {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
            sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        });
    }

    fn rows(&self, table: &str) -> Vec<(String, i32)> {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
            sqlx::query_as(AssertSqlSafe(format!("select * from {table}"))).fetch_all(&mut connection).await.unwrap()
        })
    }

    /// A copy of the package of a language, beside copies of the others.
    pub fn package(&self, language: &str) -> PathBuf {
        let all = self.world.path("clients");
        copy(&clients(), &all);
        all.join(language)
    }

    /// A program that finds the database, the relay and its token in its environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DATABASE_URL", self.database.url()).env("WORKER_TOKEN", &self.token);
        command.env("WORKER_URL", format!("http://127.0.0.1:{}", self.port)).stdin(Stdio::null());
        command
    }

    /// The database, as PostgreSQL's own clients write it.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Runs the page's programs: the producer to its end, the worker until it has booked the order and SIGTERM stops it.
    /// Then looks at everything that the package's tests and these programs have left.
    pub fn check(self, producer: &mut Command, worker: Command) {
        self.check_ending(producer, worker, 0);
    }

    /// The same, when a worker that stopped gracefully ends with this exit code.
    pub fn check_ending(self, producer: &mut Command, worker: Command, code: i32) {
        crate::run(producer);
        let worker = Running::start(worker);
        until("the order is booked", || !self.rows("booked").is_empty());
        worker.signal(Signal::SIGTERM);
        assert_eq!(worker.end(), code);
        let order = [("order-7".to_owned(), 4200)];
        assert_eq!((self.rows("orders"), self.rows("booked")), (order.to_vec(), order.to_vec()));

        // Of the package's own test: one at once, one at the second attempt. Of the page's producer: one. The relay writes what
        // the worker has settled a moment later.
        until("three are delivered", || {
            let route = self.world.route("mailer");
            (&route["due"], &route["delivered"], &route["dead"]) == (&0.into(), &3.into(), &1.into())
        });
        assert_eq!(self.world.json(&["dead", "ls"])[0]["id"], "order-bad");
        self.relay.stop();
    }
}
