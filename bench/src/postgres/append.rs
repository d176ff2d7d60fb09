//! What an event costs the business transaction it belongs to: an update of an account, a line of history, a commit.
//!
//! PostgreSQL's own client makes the transactions, as cheaply as a client can: it shares the machine with the server. The same
//! transaction with one statement more that does nothing says which part is the way to the server and back.

use std::path::Path;
use std::process::Command;

use postroom_core::{Event, JSON};
use postroom_postgres::{PostgresStore, Statement, Value};
use postroom_testbed::program;
use sqlx::{Executor, PgPool};

use super::{Server, median};

const ACCOUNTS: i32 = 100_000;
const KEYS: u32 = 10_000;
const BATCH: u32 = 100;
// Each in another order: a neighbour of the machine then disturbs a few of them, not one kind. Long, because every connection
// prepares its statements first.
const ROUNDS: usize = 6;
const ROUND_SECONDS: &str = "5";

/// What the transaction does beside its business: nothing, an empty statement, or an append in one of three ways.
const NAMES: [&str; 5] = ["nothing", "empty", "library", "function", "many"];

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
    let folder = tempfile::tempdir().unwrap();
    let scripts = NAMES.map(|name| Script::new(&store, name));
    for (name, script) in NAMES.iter().zip(&scripts) {
        std::fs::write(folder.path().join(name), &script.text).unwrap();
    }
    for connections in [8, 32] {
        touch(&pool).await;
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let mut measured = [Round::default(); NAMES.len()];
            for n in (0..NAMES.len()).map(|n| (n + round) % NAMES.len()) {
                let before = server.spent(&pool).await;
                let mut client = client(connections, &folder.path().join(NAMES[n]), &scripts[n].values);
                let (made, per_second) = transactions(client.arg(server.url("bench_append")));
                let (cpu, wal) = server.spent(&pool).await.per(before, made);
                measured[n] = Round { per_second, cpu, wal };
            }
            // The first one warms the server.
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

fn report(connections: u32, rounds: &[[Round; NAMES.len()]]) {
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

/// A transaction as the client reads it, and the values it binds.
struct Script {
    text: String,
    values: Vec<String>,
}

impl Script {
    fn new(store: &PostgresStore, name: &str) -> Self {
        let payload = format!("{{\"x\":\"{}\"}}", "p".repeat(292));
        let made = |key: u32| Event::new("order.placed").key(key.to_string()).bytes(JSON, payload.clone());
        let mut values = Vec::new();
        let more = match name {
            "nothing" => String::new(),
            "empty" => "select 1;\n".to_owned(),
            "function" => {
                values.push(format!("payload={payload}"));
                "select postroom.append('order.placed', :key, :payload);\n".to_owned()
            }
            "library" => bound(&store.statement(&made(0)).unwrap(), &mut values),
            _ => {
                let events: Vec<Event> = (0..BATCH).map(|_| made(fastrand::u32(..KEYS))).collect();
                bound(&store.statement_many(&events).unwrap(), &mut values)
            }
        };
        let text = format!(
            "\\set a random(1, {ACCOUNTS})\n\\set d random(-5000, 5000)\n\\set key random(1, {KEYS})\nbegin;\n\
             update account set balance = balance + :d where id = :a;\n\
             insert into history (account, delta) values (:a, :d);\n{more}commit;\n"
        );
        Self { text, values }
    }
}

/// The library's statement with a variable for each of its values. The client can bind no null, and draws single keys itself.
fn bound(statement: &Statement, values: &mut Vec<String>) -> String {
    let mut text = statement.sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ");
    // From the last one, so that $1 is not found in $15.
    for (n, value) in statement.values.iter().enumerate().rev() {
        let put = match (n, value) {
            (_, Value::Text(None)) => "null".to_owned(),
            (2, Value::Text(_)) => ":key".to_owned(),
            _ => {
                values.push(format!("v{n}={}", written(value)));
                format!(":v{n}")
            }
        };
        text = text.replace(&format!("${}", n + 1), &put);
    }
    text + ";\n"
}

/// A value as its type reads it.
fn written(value: &Value) -> String {
    let hex = |bytes: &[u8]| bytes.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "null".to_owned());
    let array = |of: Vec<String>| format!("{{{}}}", of.join(","));
    match value {
        Value::Text(value) => text(value),
        Value::Int(value) => value.to_string(),
        Value::Bytes(value) => hex(value),
        Value::Texts(values) => array(values.iter().map(text).collect()),
        Value::Ints(values) => array(values.iter().map(i32::to_string).collect()),
        Value::ByteStrings(values) => array(values.iter().map(|value| hex(value).replace('\\', "\\\\")).collect()),
    }
}

fn client(connections: u32, script: &Path, values: &[String]) -> Command {
    let mut client = Command::new(program("pgbench", "postgresql-15").unwrap());
    client.args(["--no-vacuum", "--protocol=prepared", "--jobs=1", "--time", ROUND_SECONDS, "--client"]);
    client.arg(connections.to_string()).arg("--file").arg(script);
    client.args(values.iter().flat_map(|value| ["--define", value]));
    client
}

/// Every connection makes one transaction after the other for a round; how many all made, and how many a second.
fn transactions(client: &mut Command) -> (f64, f64) {
    let said = client.output().unwrap();
    let (said, wrong) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8_lossy(&said.stderr));
    let number = |before: &str| {
        let rest = said.lines().find_map(|line| line.strip_prefix(before));
        let number = rest.and_then(|rest| rest.split([' ', '/']).next()).and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("pgbench said {said}{wrong}")).unwrap()
    };
    (number("number of transactions actually processed: "), number("tps = "))
}
