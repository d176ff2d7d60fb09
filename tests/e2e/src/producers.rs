//! Several producers on PostgreSQL at once: per-key counters and a booking change in the same transaction as the events
//! are appended.
//!
//! One transaction in ten rolls back, and the server may go away at any moment. What became of a commit whose answer was
//! lost is found out afterwards: its booking is there or not. One more producer, with keys of its own, has a transaction open
//! for as long as it is told.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use postroom::postgres::{PostgresOptions, PostgresStore};
use postroom::{Event, Outbox};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Row};

use crate::ledger::{Ledger, Written};

/// How many keys there are: enough to fill the windows of all relays, few enough for producers to meet.
const KEYS: u32 = 500;
/// Most events of one transaction, each of another key.
const TOGETHER_MAX: usize = 8;
/// How many producers there are.
const PRODUCERS: usize = 4;
/// Pause before the next try while the server is away.
const AWAY: Duration = Duration::from_millis(50);
/// Pause of a producer that is far enough ahead of the relays.
const AHEAD: Duration = Duration::from_millis(5);

/// Producers at work in a thread of their own.
#[derive(Debug)]
pub struct Producers {
    shared: Arc<Shared>,
    work: JoinHandle<Ledger>,
}

/// What all of them look at.
#[derive(Debug)]
struct Shared {
    /// One server, or those of which one is the primary.
    urls: Vec<PgConnectOptions>,
    events_max: usize,
    stop: AtomicBool,
    committed: AtomicUsize,
    delivered: AtomicUsize,
    ahead_max: usize,
    since: Instant,
    per_second: usize,
    /// For how long the next long transaction stays open, until somebody takes it.
    open_for: Mutex<Option<Duration>>,
}

impl Producers {
    /// Starts producing into a migrated database, until there are `events` or they are stopped.
    ///
    /// They go as fast as they can until they are `ahead_max` events ahead of what [`Producers::delivered`] was told.
    pub fn start(url: &str, events: usize, ahead_max: usize) -> Self {
        Self::begin(&[url], events, ahead_max, 0)
    }

    /// The same on whichever of several servers is the primary, until they are stopped. What a server that takes over does
    /// not have is not counted as committed in their ledger, but as gone.
    pub fn on_any(urls: &[&str], ahead_max: usize) -> Self {
        Self::begin(urls, usize::MAX, ahead_max, 0)
    }

    /// The same at a steady rate, until they are stopped.
    pub fn steady(url: &str, per_second: usize) -> Self {
        Self::begin(&[url], usize::MAX, 0, per_second)
    }

    fn begin(urls: &[&str], events: usize, ahead_max: usize, per_second: usize) -> Self {
        let connect = |url: &&str| url.parse::<PgConnectOptions>().unwrap().application_name("producer");
        let shared = Arc::new(Shared {
            urls: urls.iter().map(connect).collect(),
            events_max: events,
            stop: AtomicBool::new(false),
            committed: AtomicUsize::new(0),
            delivered: AtomicUsize::new(0),
            ahead_max,
            since: Instant::now(),
            per_second,
            open_for: Mutex::default(),
        });
        let options = PostgresOptions::new("main", "").urls(urls.iter().copied());
        let of_work = Arc::clone(&shared);
        let work = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(produce(options, of_work))
        });
        Self { shared, work }
    }

    /// How many events are committed so far.
    pub fn committed(&self) -> usize {
        self.shared.committed.load(Ordering::Relaxed)
    }

    /// Tells them how many events have been delivered.
    pub fn delivered(&self, events: usize) {
        self.shared.delivered.store(events, Ordering::Relaxed);
    }

    /// Has them append so many more as fast as they can.
    pub fn burst(&self, events: usize) {
        self.shared.delivered.fetch_add(events, Ordering::Relaxed);
    }

    /// Has a transaction append to keys of its own and stay open for so long before it ends.
    pub fn stay_open(&self, length: Duration) {
        *self.shared.open_for() = Some(length);
    }

    /// Who holds the lanes, how far they are and what every session is doing: for a campaign that has stalled.
    pub fn scene(&self) -> String {
        let looks = [
            "select 'lane ' || row_to_json(l) from postroom.lane l where holder is null",
            "select 'held ' || row_to_json(l) from (select route, holder, count(*), alive_until, clock_timestamp() as now \
             from postroom.lane left join postroom.relay on boot = holder where holder is not null group by 1, 2, 4) l",
            "select 'open ' || row_to_json(c) from (select distinct on (route, lane) * from postroom.checkpoint \
             order by route, lane, term desc, id desc) c where not isempty(unsettled) or pending <> '{}'",
            "select 'delivery ' || row_to_json(d) from (select * from postroom.delivery order by since limit 20) d",
            "select 'last ' || max(seq) from postroom.log",
            "select 'session ' || row_to_json(a) from (select pid, application_name, state, wait_event, backend_xid, \
             backend_xmin, clock_timestamp() - xact_start as open, left(query, 80) as query \
             from pg_stat_activity where backend_type = 'client backend') a",
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = connected(&self.shared.urls).await;
            let mut lines = Vec::new();
            for look in looks {
                lines.extend(sqlx::query_scalar::<_, String>(look).fetch_all(&mut connection).await.unwrap());
            }
            lines.join("\n")
        })
    }

    /// Whether they have produced all they were asked for.
    pub fn have_finished(&self) -> bool {
        self.work.is_finished()
    }

    /// Tells them to end what they are at and begin nothing more.
    pub fn finish(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Stops them; their ledger agrees with their business.
    pub fn stop(self) -> Ledger {
        self.finish();
        self.work.join().unwrap()
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.committed.load(Ordering::Relaxed) < self.events_max
    }

    fn is_ahead(&self) -> bool {
        let by_now = usize::try_from(self.since.elapsed().as_millis()).unwrap() * self.per_second / 1000;
        let more = self.delivered.load(Ordering::Relaxed).saturating_add(self.ahead_max);
        self.committed.load(Ordering::Relaxed) > more.saturating_add(by_now)
    }

    fn open_for(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        self.open_for.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn produce(options: PostgresOptions, shared: Arc<Shared>) -> Ledger {
    let store = PostgresStore::open(options).await.unwrap();
    let mut connection = connected(&shared.urls).await;
    sqlx::raw_sql(
        "create table counter (key text primary key, number bigint not null); create table booking (id text primary key)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let producer =
        || Producer { store: store.clone(), shared: Arc::clone(&shared), connection: None, ledger: Ledger::default() };
    let mut each: Vec<_> = (0..PRODUCERS).map(|_| tokio::spawn(producer().run())).collect();
    each.push(tokio::spawn(producer().run_slowly()));
    let mut ledger = Ledger::default();
    for producer in each {
        ledger.add(producer.await.unwrap());
    }
    let mut connection = connected(&shared.urls).await;
    if shared.urls.len() > 1 {
        let there = sqlx::query_scalar("select id::text from postroom.event").fetch_all(&mut connection).await.unwrap();
        ledger.keep(&there.into_iter().collect());
    }
    let rows = sqlx::query("select key, number from counter").fetch_all(&mut connection).await.unwrap();
    ledger.agrees_with(rows.iter().map(|row| (row.get(0), row.get(1))));
    ledger
}

/// One of them.
struct Producer {
    store: PostgresStore,
    shared: Arc<Shared>,
    connection: Option<PgConnection>,
    ledger: Ledger,
}

impl Producer {
    async fn run(mut self) -> Ledger {
        while self.shared.goes_on() {
            if self.shared.is_ahead() {
                tokio::time::sleep(AHEAD).await;
            } else {
                self.one(&keys(), Duration::ZERO).await;
            }
        }
        self.ledger
    }

    /// Whoever has a key of an open transaction waits for its end, so that its keys are nobody else's.
    async fn run_slowly(mut self) -> Ledger {
        let keys: Vec<String> = (0..TOGETHER_MAX).map(|number| format!("slow-{number}")).collect();
        while self.shared.goes_on() {
            let length = self.shared.open_for().take();
            match length {
                Some(length) => self.one(&keys, length).await,
                None => tokio::time::sleep(AWAY).await,
            }
        }
        self.ledger
    }

    /// One transaction, which ends so long after its last statement, and what became of it.
    async fn one(&mut self, keys: &[String], open: Duration) {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connected(&self.shared.urls).await,
        };
        let booking = postroom::new_id();
        let mut written = Vec::new();
        let committed = match transact(&self.store, &mut connection, keys, &booking, open, &mut written).await {
            Ok(committed) => {
                self.connection = Some(connection);
                committed
            }
            // The commit was not asked for, or its answer did not come.
            Err(_) if is_there(&self.shared.urls, &booking).await => true,
            Err(_) => {
                self.ledger.unanswered.extend(written.iter().map(|written| written.id.clone()));
                false
            }
        };
        if committed {
            self.shared.committed.fetch_add(written.len(), Ordering::Relaxed);
            self.ledger.committed.extend(written);
        } else {
            self.ledger.rolled_back.extend(written.into_iter().map(|written| written.id));
        }
    }
}

/// Some keys, in one order everywhere, so that two producers never wait for each other.
fn keys() -> Vec<String> {
    let mut numbers: Vec<u32> = (0..fastrand::usize(1..=TOGETHER_MAX)).map(|_| fastrand::u32(..KEYS)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().map(|number| format!("account-{number:03}")).collect()
}

/// The counters move, the booking is made, the events are appended: all or nothing. Whether it was committed.
async fn transact(
    store: &PostgresStore,
    connection: &mut PgConnection,
    keys: &[String],
    booking: &str,
    open: Duration,
    written: &mut Vec<Written>,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let mut tx = connection.begin().await?;
    let count = "insert into counter (key, number) select key, 1 from unnest($1::text[]) as key \
                 on conflict (key) do update set number = counter.number + 1 returning key, number";
    let rows = sqlx::query(count).bind(keys).fetch_all(&mut *tx).await?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        let (key, number): (String, i64) = (row.get(0), row.get(1));
        let event = Event::new("account.changed").key(&key).json(&json!({ "key": key, "number": number }))?;
        written.push(Written { id: event.id.clone(), key, number: number.cast_unsigned() });
        events.push(event);
    }
    sqlx::query("insert into booking (id) values ($1)").bind(booking).execute(&mut *tx).await?;
    let appended = store.append_many(&mut tx, &events).await?;
    tokio::time::sleep(open).await;
    if fastrand::u32(..10) == 0 {
        tx.rollback().await?;
        return Ok(false);
    }
    tx.commit().await?;
    appended.wake();
    Ok(true)
}

/// Whether the transaction with this booking has committed; asked until there is an answer.
async fn is_there(urls: &[PgConnectOptions], booking: &str) -> bool {
    loop {
        let mut connection = connected(urls).await;
        let found =
            sqlx::query("select from booking where id = $1").bind(booking).fetch_optional(&mut connection).await;
        if let Ok(found) = found {
            return found.is_some();
        }
    }
}

/// A connection to the primary, as soon as it gives one.
async fn connected(urls: &[PgConnectOptions]) -> PgConnection {
    loop {
        for url in urls {
            if let Ok(mut connection) = url.connect().await
                && let Ok(false) = sqlx::query_scalar("select pg_is_in_recovery()").fetch_one(&mut connection).await
            {
                return connection;
            }
        }
        tokio::time::sleep(AWAY).await;
    }
}
