//! What relays and their database use, looked at again and again while they work.
//!
//! The bounds leave room for what a run has of itself: which faults fall into which third is chance, and another program may
//! be at work beside. They are far below what a leak makes of a run of half an hour.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use crate::level::{Bound, Series};
use crate::relays::Relays;

const MIB: f64 = 1024.0 * 1024.0;
const MILLIS: f64 = 1000.0;
/// How long a relay may take to answer; one that was stopped meanwhile never does.
const ANSWER: Duration = Duration::from_secs(5);

/// How many tables are named with their rows and sizes.
const LARGEST: usize = 3;

/// Everything that was seen.
#[derive(Debug)]
pub struct Samples {
    url: PgConnectOptions,
    schema: String,
    since: Instant,
    eldest_memory: Series,
    memory: Series,
    files: Series,
    bytes: Series,
    rows: Series,
    read: Timing,
    settle: Timing,
    late: Series,
}

/// All tables of the store together: their size in MiB, thousands of rows, the largest of them, and how many rows are in the partitions
/// of the log and of the receipts.
struct Tables {
    bytes: f64,
    rows: f64,
    largest: String,
    in_rings: i64,
}

/// How long one kind of statement took on average since the last look.
#[derive(Debug)]
struct Timing {
    metric: &'static str,
    series: Series,
    /// Seconds and number of all statements so far, by process.
    before: BTreeMap<u32, (f64, f64)>,
    /// The same of all processes since the last look.
    fresh: (f64, f64),
}

impl Samples {
    /// None yet, of relays whose store is in this schema of this database; `since` is when the run began.
    pub fn new(url: &str, schema: &str, since: Instant) -> Self {
        let connect: PgConnectOptions = url.parse().unwrap();
        // Memory: an allocator keeps what a backlog once needed. Tables: a paused route keeps what it has not had, and a table
        // of one row may be some pages. Time: a mean is mostly waiting for a processor on a busy machine; a statement that
        // walks over what should have gone takes many times as long.
        let memory = Bound { times: 1.3, plus: 10.0 };
        let time = Bound { times: 2.0, plus: 25.0 };
        Self {
            url: connect.application_name("samples"),
            schema: schema.to_owned(),
            since,
            eldest_memory: Series::new("memory of eldest, MiB", memory),
            memory: Series::new("memory at most, MiB", memory),
            files: Series::new("open files at most", Bound { times: 1.3, plus: 20.0 }),
            bytes: Series::new("tables, MiB", Bound { times: 1.5, plus: 16.0 }),
            rows: Series::new("rows, thousands", Bound { times: 1.5, plus: 10.0 }),
            read: Timing::new("postroom_read_duration_seconds", Series::new("mean read, ms", time)),
            settle: Timing::new("postroom_settle_duration_seconds", Series::new("mean settle, ms", time)),
            late: Series::new("oldest due, s", Bound { times: 2.0, plus: 10.0 }),
        }
    }

    /// Looks once. The first of the relays is the one that lives from the beginning to the end; `late` is how many seconds
    /// the oldest delivery has been due.
    #[allow(clippy::print_stdout, reason = "the course of a long run")]
    pub fn look(&mut self, relays: &Relays<'_>, late: f64) {
        let memory: Vec<f64> = relays.all().iter().map(|relay| relay.memory() as f64 / MIB).collect();
        let most = memory.iter().copied().fold(0.0, f64::max);
        let files = relays.all().iter().map(crate::Running::files).max().unwrap_or_default();
        self.eldest_memory.add(memory[0]);
        self.memory.add(most);
        self.files.add(files as f64);
        let Tables { bytes, rows, largest, .. } = self.tables();
        self.bytes.add(bytes);
        self.rows.add(rows);
        self.late.add(late);
        for which in 0..relays.count() {
            let text = relays.address(which).and_then(|address| metrics(&address));
            if let Some(text) = text {
                let (_, pid) = relays.who(which);
                self.read.observed(pid, &text);
                self.settle.observed(pid, &text);
            }
        }
        let (read, settle) = (self.read.end(), self.settle.end());
        println!(
            "{:6.1} s: memory {memory:.0?} MiB, {files} files, tables {bytes:.1} MiB, {rows:.1} thousand rows ({largest}), read {read:.2} ms, \
             settle {settle:.2} ms, oldest due {late:.1} s",
            self.since.elapsed().as_secs_f64()
        );
    }

    /// Prints the medians of the thirds.
    #[allow(clippy::print_stdout, reason = "the figures of a run")]
    pub fn print(&self) {
        println!("{:26}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "first", "middle", "last", "allowed", "highest");
        for series in self.all() {
            println!("{series}");
        }
    }

    /// What grows, in words.
    pub fn growing(&self) -> Vec<String> {
        self.all().iter().filter(|series| series.grows()).map(ToString::to_string).collect()
    }

    fn all(&self) -> [&Series; 8] {
        let Self { eldest_memory, memory, files, bytes, rows, read, settle, late, .. } = self;
        [eldest_memory, memory, files, bytes, rows, &read.series, &settle.series, late]
    }

    /// How many events and receipts the rings hold now.
    pub fn in_rings(&self) -> i64 {
        self.tables().in_rings
    }

    fn tables(&self) -> Tables {
        let sizes = "select c.oid::regclass::text, pg_total_relation_size(c.oid) from pg_class c \
                     where relnamespace = $1::regnamespace and relkind = 'r'";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection: PgConnection = self.url.connect().await.unwrap();
            let tables = sqlx::query(sizes).bind(&self.schema).fetch_all(&mut connection).await.unwrap();
            let (mut bytes, mut counts) = (0, Vec::new());
            for table in &tables {
                let (name, size): (String, i64) = (table.get(0), table.get(1));
                bytes += size;
                let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(format!("select count(*) from {name}")));
                counts.push((size, count.fetch_one(&mut connection).await.unwrap(), name));
            }
            counts.sort_unstable_by(|one, other| other.cmp(one));
            let rows = counts.iter().map(|(_, count, _)| *count).sum::<i64>() as f64 / 1000.0;
            let words = |(size, count, name): &(i64, i64, String)| format!("{name} {count} in {} KiB", size / 1024);
            let largest: Vec<String> = counts.iter().take(LARGEST).map(words).collect();
            let in_ring = |name: &str| name.contains("log_") || name.contains("receipt_");
            let in_rings = counts.iter().filter(|(_, _, name)| in_ring(name)).map(|(_, count, _)| count).sum();
            Tables { bytes: bytes as f64 / MIB, rows, largest: largest.join(", "), in_rings }
        })
    }
}

impl Timing {
    fn new(metric: &'static str, series: Series) -> Self {
        Self { metric, series, before: BTreeMap::new(), fresh: (0.0, 0.0) }
    }

    /// Takes in what a process says of all its statements so far.
    fn observed(&mut self, pid: u32, metrics: &str) {
        let part = |end: &str| -> f64 {
            let name = format!("{}_{end}", self.metric);
            let lines = metrics.lines().filter(|line| line.starts_with(&name));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        let now = (part("sum"), part("count"));
        let before = self.before.insert(pid, now).unwrap_or_default();
        self.fresh.0 += now.0 - before.0;
        self.fresh.1 += now.1 - before.1;
    }

    /// The mean since the last look, in milliseconds; nothing is added to the series when there was no statement.
    fn end(&mut self) -> f64 {
        let (seconds, count) = std::mem::take(&mut self.fresh);
        let mean = if count > 0.0 { seconds * MILLIS / count } else { return 0.0 };
        self.series.add(mean);
        mean
    }
}

/// What a relay says at `/metrics`, if it answers.
fn metrics(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
