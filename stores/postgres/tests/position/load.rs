//! Writers that do everything a transaction can do: take their id early, lock and append, roll back to savepoints or
//! altogether, stay open, prepare and commit later, append one by one and many at once, by function and by the library.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use postroom_core::{Event, Outbox as _, new_id};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Postgres, Transaction};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::position::checker::Fact;
use crate::position::shop::{Elsewhere, Shop};

const WRITERS: usize = 11;
const KEYS: usize = 400;

/// Writers at work, and one that is idle in a transaction of another database all the while.
pub(crate) struct Load {
    writers: JoinSet<Written>,
    running: Arc<AtomicUsize>,
    elsewhere: Elsewhere,
}

/// What writers did.
#[derive(Debug, Default)]
pub(crate) struct Written {
    committed: usize,
    rolled_back: usize,
    prepared: usize,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { committed, rolled_back, prepared } = self;
        write!(f, "transactions {committed} rolled back {rolled_back} prepared {prepared}")
    }
}

impl Load {
    pub(crate) async fn begin(shop: &Shop, length: Duration) -> Self {
        let elsewhere = Elsewhere::begin().await;
        let fill = format!("insert into aggregate select 'k' || i, 0 from generate_series(1, {KEYS}) i");
        shop.session().await.conn.execute(AssertSqlSafe(fill)).await.unwrap();
        let until = Instant::now() + length;
        let running = Arc::new(AtomicUsize::new(WRITERS + 1));
        let mut writers = JoinSet::new();
        for number in 0..WRITERS {
            let mut writer = Writer::new(shop, number).await;
            let running = Arc::clone(&running);
            writers.spawn(async move {
                while Instant::now() < until {
                    writer.transaction().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                writer.written
            });
        }
        let (mut alone, ended) = (shop.session().await, Arc::clone(&running));
        writers.spawn(async move {
            let mut n = 0;
            while Instant::now() < until {
                n += 1;
                alone.run("begin").await.append("alone", n).await;
                alone.run("commit").await;
                sleep(Duration::from_millis(2)).await;
            }
            ended.fetch_sub(1, Ordering::SeqCst);
            Written { committed: usize::try_from(n).unwrap(), ..Written::default() }
        });
        Self { writers, running, elsewhere }
    }

    /// Whether everybody has committed their last.
    pub(crate) fn is_over(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }

    /// Waits for the writers; what they did.
    pub(crate) async fn end(mut self) -> Written {
        let mut all = Written::default();
        while let Some(written) = self.writers.join_next().await {
            let written = written.unwrap();
            all.committed += written.committed;
            all.rolled_back += written.rolled_back;
            all.prepared += written.prepared;
        }
        self.elsewhere.end().await;
        all
    }
}

struct Writer {
    shop: Shop,
    conn: PgConnection,
    number: usize,
    random: Rng,
    written: Written,
}

/// How the events of a transaction are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Function,
    FunctionMany,
    Library,
    LibraryMany,
}

impl Writer {
    async fn new(shop: &Shop, number: usize) -> Self {
        let random = Rng::with_seed(number as u64);
        Self { shop: shop.clone(), conn: shop.session().await.conn, number, random, written: Written::default() }
    }

    async fn transaction(&mut self) {
        let Self { shop, conn, number, random, written } = self;
        let mut tx = conn.begin().await.unwrap();
        if chance(random, 0.3) {
            tx.execute("select pg_current_xact_id()").await.unwrap();
        }
        pause(random, 0.01, 20.0).await;
        let several = [1, 1, 1, 2, 3][random.usize(..5)];
        let keys: BTreeSet<usize> = (0..several).map(|_| random.usize(1..=KEYS)).collect();
        let way = [Way::Function, Way::Library, Way::FunctionMany, Way::LibraryMany][random.usize(..4)];
        let mut facts = Vec::new();
        for key in keys {
            let key = format!("k{key}");
            // A lock that takes no transaction id: the append may be the first to take it.
            let lock = sqlx::query("select pg_advisory_xact_lock(hashtext(current_schema()), hashtext($1))").bind(&key);
            lock.execute(&mut *tx).await.unwrap();
            let look = sqlx::query_scalar("select n + 1 from aggregate where key = $1").bind(&key);
            let n: i32 = look.fetch_one(&mut *tx).await.unwrap();
            if chance(random, 0.05) {
                let ghost = Fact { id: new_id(), key: key.clone(), n: n + 1_000_000 };
                tx.execute("savepoint a").await.unwrap();
                append(shop, &mut tx, Way::Function, &[ghost]).await;
                tx.execute("rollback to a").await.unwrap();
            }
            if chance(random, 0.2) {
                tx.execute("savepoint b").await.unwrap();
            }
            let fact = Fact { id: new_id(), key, n };
            if way == Way::Function || way == Way::Library {
                append(shop, &mut tx, way, std::slice::from_ref(&fact)).await;
            }
            let change = sqlx::query("update aggregate set n = $2 where key = $1").bind(&fact.key).bind(n);
            change.execute(&mut *tx).await.unwrap();
            facts.push(fact);
            pause(random, 0.01, 10.0).await;
        }
        if way == Way::FunctionMany || way == Way::LibraryMany {
            append(shop, &mut tx, way, &facts).await;
        }
        pause(random, 0.001, 1_500.0).await;
        if chance(random, 0.3) {
            tx.rollback().await.unwrap();
            written.rolled_back += 1;
            return;
        }
        for Fact { id, key, n } in &facts {
            let note = sqlx::query("insert into committed (id, key, n) values ($1, $2, $3)").bind(id).bind(key).bind(n);
            note.execute(&mut *tx).await.unwrap();
        }
        written.committed += 1;
        if !chance(random, 0.002) {
            tx.commit().await.unwrap();
            return;
        }
        written.prepared += 1;
        let name = format!("{}-{number}-{}", shop.schema(), written.prepared);
        tx.execute(AssertSqlSafe(format!("prepare transaction '{name}'"))).await.unwrap();
        // It is the server's now; there is nothing left to commit here.
        tx.commit().await.unwrap();
        pause(random, 1.0, 500.0).await;
        conn.execute(AssertSqlSafe(format!("commit prepared '{name}'"))).await.unwrap();
    }
}

fn chance(random: &mut Rng, of: f64) -> bool {
    random.f64() < of
}

async fn pause(random: &mut Rng, of: f64, most_ms: f64) {
    if chance(random, of) {
        sleep(Duration::from_secs_f64(random.f64() * most_ms / 1_000.0)).await;
    }
}

async fn append(shop: &Shop, tx: &mut Transaction<'_, Postgres>, way: Way, facts: &[Fact]) {
    let event =
        |Fact { id, key, n }: &Fact| Event::new("order.changed").id(id).key(key).json(&json!({"n": n})).unwrap();
    match way {
        Way::Function => {
            for Fact { id, key, n } in facts {
                let text = "select append('order.changed', $1, json_build_object('n', $2), $3)";
                sqlx::query(text).bind(key).bind(n).bind(id).execute(&mut **tx).await.unwrap();
            }
        }
        Way::FunctionMany => {
            let object = |Fact { id, key, n }: &Fact| json!({"type": "order.changed", "id": id, "key": key, "payload": {"n": n}});
            let events = Value::Array(facts.iter().map(object).collect()).to_string();
            sqlx::query("select append_many($1::text::json)").bind(events).execute(&mut **tx).await.unwrap();
        }
        Way::Library => {
            for fact in facts {
                drop(shop.store.append(tx, &event(fact)).await.unwrap());
            }
        }
        Way::LibraryMany => {
            let events: Vec<Event> = facts.iter().map(event).collect();
            drop(shop.store.append_many(tx, &events).await.unwrap());
        }
    }
}
