//! Relays and operators that vanish inside a transaction: stopped, cut off or without power, so that nobody ends their
//! connections. Others must get what they held.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postroom_admin::{ManagedStore as _, Selection};
use postroom_core::{Event, Retention, Store as _};
use postroom_postgres::PostgresStore;
use postroom_testbed::proxy::{Mode, Trigger};
use postroom_testbed::{Database, FaultProxy, Servers};

use crate::hazards::bench::{
    Bench, LEASE, PATIENCE, Worker, ada, append, dead, delivered, events, ids, relay, retry, route,
};

/// The lease of the relay that vanishes.
const SHORT: Duration = Duration::from_secs(3);
/// How long after its lease another relay may take until it delivers.
const GRACE: Duration = Duration::from_secs(10);

/// What it does when it vanishes.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Registering,
    TakingLanes,
    Parking,
    SettlingFailures,
    Pruning,
    Discarding,
}

impl Doing {
    const ALL: [Self; 6] =
        [Self::Registering, Self::TakingLanes, Self::Parking, Self::SettlingFailures, Self::Pruning, Self::Discarding];

    /// The statement whose answer it never hears: from there on it holds what others need.
    fn statement(self) -> &'static str {
        match self {
            Self::Registering => ".lane (route, lane, term",
            Self::TakingLanes => ".lane l set holder",
            Self::Parking => ".delivery (route, lane",
            Self::SettlingFailures => "for share",
            Self::Pruning => ".lane order by route, lane for share",
            Self::Discarding => "for no key update",
        }
    }

    /// Does it until it vanishes.
    async fn vanish(self, store: &PostgresStore, proxy: &FaultProxy) {
        let vanish = proxy.set(Mode::HoldAt(Trigger::Statement(self.statement().to_owned())));
        match self {
            Self::Registering => {
                vanish.await;
                until_held(proxy, Worker::on(store, SHORT)).await;
            }
            Self::TakingLanes => {
                let mut worker = Worker::on(store, SHORT).await;
                vanish.await;
                until_held(proxy, worker.look(10)).await;
            }
            Self::Parking => {
                let mut worker = owner(store).await;
                let failing = worker.take(1).await;
                worker.settle_all(&[retry(&failing[0], Duration::from_hours(1))]).await;
                append(store, &[Event::new("order.placed").key("bad")]).await.unwrap();
                worker.renew().await.unwrap();
                vanish.await;
                until_held(proxy, worker.look(10)).await;
            }
            Self::SettlingFailures => {
                let mut worker = owner(store).await;
                let failing = worker.take(1).await;
                worker.renew().await.unwrap();
                vanish.await;
                until_held(proxy, worker.source.settle(&[retry(&failing[0], Duration::ZERO)])).await;
            }
            Self::Pruning => {
                owner(store).await;
                vanish.await;
                until_held(proxy, store.admin().prune(&Retention::default(), false)).await;
            }
            Self::Discarding => {
                let mut worker = owner(store).await;
                let failing = worker.take(1).await;
                worker.settle_all(&[dead(&failing[0])]).await;
                vanish.await;
                until_held(proxy, store.admin().discard_dead(&Selection::default(), false, &ada())).await;
            }
        }
    }
}

/// A relay that owns the lanes.
async fn owner(store: &PostgresStore) -> Worker {
    append(store, &[Event::new("order.placed").key("bad")]).await.unwrap();
    let mut worker = Worker::on(store, SHORT).await;
    let start = Instant::now();
    while worker.renew().await.unwrap() < 4 {
        assert!(start.elapsed() < PATIENCE, "it gets no lanes");
        worker.look(0).await.unwrap();
    }
    worker
}

/// Runs the work until the proxy swallows what belongs to it. The work itself hears nothing any more.
async fn until_held<T>(proxy: &FaultProxy, work: impl Future<Output = T>) {
    let before = proxy.counts().swallowed;
    tokio::select! {
        _ = work => panic!("it ended before it vanished"),
        _ = proxy.until(|counts| counts.swallowed > before) => {}
    }
}

/// A store whose relays reach it directly or through PgBouncer. It is dropped when all are done: that keeps the thread, and
/// with it every transaction of the test.
#[derive(Debug)]
struct Place {
    bench: Bench,
    database: Option<Database>,
}

impl Place {
    async fn new(pooled: bool) -> Self {
        if !pooled {
            return Self { bench: Bench::new().await, database: None };
        }
        let database = Database::create(&Servers::find()).await;
        Self { bench: Bench::at(database.url()).await, database: Some(database) }
    }

    /// As relays open it, perhaps through a proxy.
    async fn open(&self, proxy: Option<&FaultProxy>) -> PostgresStore {
        let servers = Servers::find();
        let name = self.database.as_ref().map_or("postgres", Database::name);
        let pooled = self.database.is_some();
        let direct = if pooled { servers.pgbouncer_url(name) } else { servers.postgres_url(name) };
        self.bench.by(proxy.map_or(direct, |proxy| proxy.url(name))).await
    }
}

/// How long after the first relay has vanished another one takes until it delivers.
async fn takes_over(doing: Doing, pooled: bool) -> (Duration, Place) {
    let place = Place::new(pooled).await;
    let bench = &place.bench;
    let proxy = FaultProxy::to_postgres(Servers::find().port(if pooled { "pgbouncer" } else { "postgres" })).await;
    let (vanishing, other) = (place.open(Some(&proxy)).await, place.open(None).await);
    doing.vanish(&vanishing, &proxy).await;

    let start = Instant::now();
    bench.append(&events(1_000, 40)).await;
    let mut worker = loop {
        match other.source(&relay(LEASE), &route()).await {
            Ok(source) => break Worker { source, came: BTreeMap::new() },
            Err(error) => assert!(start.elapsed() < PATIENCE, "{doing:?}: {error}"),
        }
    };
    let wanted = ids(1_000, 40);
    while !wanted.iter().all(|id| worker.came.contains_key(id)) {
        let taken = worker.take(500).await;
        worker.settle_all(&taken.iter().map(delivered).collect::<Vec<_>>()).await;
    }
    let took = start.elapsed();
    worker.drain().await;
    bench.agrees().await;
    (took, place)
}

async fn all_take_over(pooled: bool) {
    let mut all = tokio::task::JoinSet::new();
    for doing in Doing::ALL {
        all.spawn(async move { (doing, takes_over(doing, pooled).await) });
    }
    let done = all.join_all().await;
    let took = done.iter().map(|(doing, (took, _))| (doing, took));
    let late: Vec<_> = took.filter(|(_, took)| **took > SHORT + GRACE).collect();
    assert!(late.is_empty(), "more than {:?}: {late:?}", SHORT + GRACE);
}

/// H-110
#[tokio::test]
async fn whatever_a_vanished_relay_was_doing_another_one_delivers_within_lease_and_ten_seconds() {
    all_take_over(false).await;
}

/// H-110
#[tokio::test]
async fn behind_a_pooler_too_another_relay_delivers_within_lease_and_ten_seconds() {
    all_take_over(true).await;
}
