//! What an event costs the business transaction it belongs to: an update of an account, a line of history, a commit.
//!
//! The same transaction with one statement more that does nothing says which part is the way to the server and back.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postroom_core::{Event, JSON, Outbox};
use postroom_postgres::Postgres;
use sqlx::{Connection, Executor, PgConnection, PgPool, Transaction};

use super::{Server, median};

const ACCOUNTS: i32 = 100_000;
const BATCH: u32 = 100;
// Many and short, each in another order: a neighbour of the machine then disturbs a few of them, not one kind.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(600);

/// What the transaction does beside its business.
#[derive(Clone, Copy)]
enum With {
    Nothing,
    EmptyStatement,
    Library,
    Function,
    Many,
}

const ALL: [With; 5] = [With::Nothing, With::EmptyStatement, With::Library, With::Function, With::Many];

/// One round of one kind.
#[derive(Clone, Copy, Default)]
struct Round {
    per_second: f64,
    cpu: f64,
    wal: f64,
}

pub(crate) async fn run(server: &Server) {
    let (store, pool) = server.store("append").await;
    pool.execute(
        "create table account (id int primary key, balance int8 not null, filler char(84) not null default ''); \
         create table history (account int not null, delta int8 not null, at timestamptz not null default now(), filler char(22) not null default '')",
    )
    .await
    .unwrap();
    sqlx::query("insert into account select n, 0 from generate_series(1, $1) n")
        .bind(ACCOUNTS)
        .execute(&pool)
        .await
        .unwrap();
    for connections in [8, 32] {
        touch(&pool).await;
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(PgConnection::connect(&server.url("bench_append")).await.unwrap());
        }
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let mut measured = [Round::default(); ALL.len()];
            for n in (0..ALL.len()).map(|n| (n + round) % ALL.len()) {
                let (before, start) = (server.spent(&pool).await, Instant::now());
                let made = transactions(&store, &mut clients, ALL[n]).await;
                let per_second = made / start.elapsed().as_secs_f64();
                let (cpu, wal) = server.spent(&pool).await.per(before, made);
                measured[n] = Round { per_second, cpu, wal };
            }
            // The first one prepares statements and warms the server.
            if round > 0 {
                rounds.push(measured);
            }
        }
        report(connections, &rounds);
    }
}

/// Writes every page once after a checkpoint: else the images of whole pages, which every first write after one costs,
/// would come to whoever is measured first.
async fn touch(pool: &PgPool) {
    for text in ["checkpoint", "update account set balance = balance", "vacuum account"] {
        pool.execute(text).await.unwrap();
    }
}

fn report(connections: u32, rounds: &[[Round; ALL.len()]]) {
    let middle = |of: &dyn Fn(&[Round]) -> f64| median(&mut rounds.iter().map(|r| of(r)).collect::<Vec<_>>());
    let ratio = |n: usize| middle(&|r| r[n].per_second / r[0].per_second);
    let more = |n: usize, events: f64| {
        (middle(&|r| (r[n].cpu - r[0].cpu) / events), middle(&|r| (r[n].wal - r[0].wal) / events))
    };
    let (bare, bare_cpu) = (middle(&|r| r[0].per_second), middle(&|r| r[0].cpu));
    println!(
        "postgres, append, {connections} connections: an empty statement more keeps {:.2} of the bare transaction ({bare:.0}/s, server {bare_cpu:.0} µs)",
        ratio(1)
    );
    for (n, name, target) in [(2, "library", "≥ 0.70"), (3, "function", "≥ 0.55")] {
        let (cpu, wal) = more(n, 1.0);
        println!(
            "postgres, append, {connections} connections: the {name} keeps {:.2} of the bare transaction, server {cpu:+.0} µs and {wal:+.0} B of WAL an event (targets {target}, ≤ 560 B)",
            ratio(n)
        );
    }
    let (cpu, wal) = more(4, f64::from(BATCH));
    println!(
        "postgres, append_many({BATCH}), {connections} connections: {:.1} × the events/s of single ones, {:.0}/s, server {cpu:+.1} µs and {wal:+.0} B of WAL an event (target ≥ 3)",
        middle(&|r| r[4].per_second * f64::from(BATCH) / r[2].per_second),
        middle(&|r| r[4].per_second * f64::from(BATCH))
    );
}

/// Every client makes one transaction after the other for a round; how many all made.
async fn transactions(store: &Postgres, clients: &mut Vec<PgConnection>, with: With) -> f64 {
    let start = Instant::now();
    let each = clients.drain(..).map(|mut client| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut made = 0_u32;
            while start.elapsed() < ROUND {
                let mut tx = client.begin().await.unwrap();
                business(&mut tx).await;
                event(&store, &mut tx, with).await;
                tx.commit().await.unwrap();
                made += 1;
            }
            (client, made)
        })
    });
    let mut all = 0;
    for done in join_all(each).await {
        let (client, made) = done.unwrap();
        clients.push(client);
        all += made;
    }
    f64::from(all)
}

async fn business(tx: &mut PgConnection) {
    let (account, delta) = (fastrand::i32(1..=ACCOUNTS), fastrand::i64(-5000..5000));
    let update = sqlx::query("update account set balance = balance + $2 where id = $1").bind(account).bind(delta);
    update.execute(&mut *tx).await.unwrap();
    let insert = sqlx::query("insert into history (account, delta) values ($1, $2)").bind(account).bind(delta);
    insert.execute(tx).await.unwrap();
}

async fn event(store: &Postgres, tx: &mut Transaction<'_, sqlx::Postgres>, with: With) {
    let payload = format!("{{\"x\":\"{}\"}}", "p".repeat(292));
    let key = format!("order-{}", fastrand::u32(..10_000));
    let made = || Event::new("order.placed").key(key.clone()).bytes(JSON, payload.clone());
    match with {
        With::Nothing => {}
        With::EmptyStatement => {
            sqlx::query("select 1").execute(&mut **tx).await.unwrap();
        }
        With::Library => {
            let _ = store.append(tx, &made()).await.unwrap();
        }
        With::Function => {
            let call = sqlx::query("select postroom.append($1, $2, $3::text::json)");
            call.bind("order.placed").bind(key).bind(payload).execute(&mut **tx).await.unwrap();
        }
        With::Many => {
            let events: Vec<Event> = (0..BATCH).map(|_| made()).collect();
            let _ = store.append_many(tx, &events).await.unwrap();
        }
    }
}
