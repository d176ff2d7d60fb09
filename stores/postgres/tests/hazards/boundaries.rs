//! What happens between two statements of one relay: a gate holds the second, the test does something, and lets it go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_core::{Budget, Event, Outbox as _};
use postroom_postgres::PostgresStore;
use postroom_testbed::proxy::{Sign, Waiting};
use postroom_testbed::{FaultProxy, Servers};
use tokio::sync::mpsc;

use crate::hazards::bench::{Bench, LEASE, PATIENCE, Worker, append, delivered, events, retry, wait_for};

/// A relay's store, of which statements with one of these texts are held until the test lets them go on, once it is told to.
struct Held {
    store: PostgresStore,
    hold: Arc<AtomicBool>,
    waiting: mpsc::UnboundedReceiver<Waiting>,
    _proxy: FaultProxy,
}

impl Held {
    async fn at(bench: &Bench, texts: &'static [&str]) -> Self {
        let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
        let (found, waiting) = mpsc::unbounded_channel();
        let hold = Arc::new(AtomicBool::new(false));
        let (mut gate, holds) = (proxy.gate(), Arc::clone(&hold));
        let is_held = move |text: &str| holds.load(Ordering::SeqCst) && texts.iter().any(|one| text.contains(one));
        tokio::spawn(async move {
            while let Some(sign) = gate.next().await {
                match sign {
                    // Dropped with the test, it goes on.
                    Sign::Waits(waiting) if is_held(&waiting.text) => drop(found.send(waiting)),
                    Sign::Waits(waiting) => {
                        waiting.go_on();
                    }
                    _ => {}
                }
            }
        });
        Self { store: bench.by(proxy.url("postgres")).await, hold, waiting, _proxy: proxy }
    }

    fn begin(&self) {
        self.hold.store(true, Ordering::SeqCst);
    }

    /// Lets everything go on.
    fn end(&mut self) {
        self.hold.store(false, Ordering::SeqCst);
        while let Ok(waiting) = self.waiting.try_recv() {
            waiting.go_on();
        }
    }

    /// The next one, which has this text.
    async fn next(&mut self, text: &str) -> Waiting {
        let next = tokio::time::timeout(PATIENCE, self.waiting.recv()).await;
        let next = next.expect("the statement comes").expect("the gate is kept");
        assert!(next.text.contains(text), "not {text}, but {}", next.text);
        next
    }
}

/// Asks whether earlier events of their keys block some; says that parked ones got through; looks for late events.
const IS_BLOCKED: &str = "unnest($2::text[], $3::int8[]) as u(key, seq)";
const IS_DELIVERED: &str = "delivery where handle = any($1) and lane = any($2)";
const SWEEPS: &str = "unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[]) as w(lane, x, lo, hwm)";

fn of_key(id: &str) -> Event {
    Event::new("order.placed").id(id).key("k")
}

/// H-100
#[tokio::test]
async fn a_blocker_settled_between_two_questions_of_one_take_lets_nobody_overtake() {
    let bench = Bench::with(|options| options.lanes(1)).await;
    let mut relay = Held::at(&bench, &[IS_BLOCKED, IS_DELIVERED]).await;
    let mut worker = Worker::on(&relay.store, LEASE).await;
    // The blocker has failed once and is under way again: it stands in the table.
    append(&bench.store, &[of_key("blocker")]).await.unwrap();
    let first = worker.take(10).await;
    worker.source.settle(&[retry(&first[0], Duration::ZERO)]).await.unwrap();
    let blocker = worker.take(10).await;
    // A late event of its key: the position has passed its number before it is committed.
    let mut open = bench.store.begin().await.unwrap();
    drop(bench.store.append(&mut open, &of_key("late")).await.unwrap());
    bench.append(&events(0, 1)).await;
    worker.until(2).await;
    open.commit().await.unwrap();
    append(&bench.store, &[of_key("fresh")]).await.unwrap();

    relay.begin();
    let source = Arc::clone(&worker.source);
    let settle = tokio::spawn(async move { source.settle(&[delivered(&blocker[0])]).await });
    let settles = relay.next(IS_DELIVERED).await;
    let source = Arc::clone(&worker.source);
    let take = tokio::spawn(async move { source.take(Budget { rows: 10, bytes: 1 << 20 }).await });
    // The first question is about the late one, the second about the fresh one.
    relay.next(IS_BLOCKED).await.go_on();
    let second = relay.next(IS_BLOCKED).await;
    settles.go_on();
    wait_for("the blocker is gone", async || bench.one("select count(*) from postroom.delivery").await == "0").await;
    relay.end();
    second.go_on();
    settle.await.unwrap().unwrap();
    let taken = take.await.unwrap().unwrap().deliveries;
    let mut order: Vec<String> = taken.iter().map(|one| one.event.id.clone()).collect();
    worker.settle_all(&taken.iter().map(delivered).collect::<Vec<_>>()).await;
    wait_for("both", async || {
        let take = worker.look(10).await.unwrap();
        order.extend(take.deliveries.iter().map(|one| one.event.id.clone()));
        worker.settle(&take.deliveries).await.unwrap();
        order.len() == 2
    })
    .await;
    assert_eq!(order, ["late", "fresh"]);
    assert_eq!(bench.agrees().await, 4);
}

/// H-105
#[tokio::test]
async fn a_settle_does_not_wait_for_a_sweep_that_takes_its_time() {
    let bench = Bench::with(|options| options.lanes(4)).await;
    let mut relay = Held::at(&bench, &[SWEEPS]).await;
    let mut worker = Worker::on(&relay.store, LEASE).await;
    // Open for many numbers, of one key and so of one lane.
    let mut open = bench.store.begin().await.unwrap();
    drop(bench.store.append(&mut open, &of_key("late")).await.unwrap());
    bench.append(&events(0, 40)).await;
    worker.until(40).await;
    bench.sql("select setval('postroom.log_seq', 1000000)").await;
    bench.append(&events(40, 40)).await;
    worker.until(80).await;
    bench.append(&events(80, 10)).await;
    let in_hand = worker.take(10).await;
    relay.begin();
    open.commit().await.unwrap();

    wait_for("the sweep", async || {
        let take = worker.look(10).await.unwrap();
        worker.settle(&take.deliveries).await.unwrap();
        !relay.waiting.is_empty()
    })
    .await;
    let sweep = relay.next(SWEEPS).await;
    relay.end();
    let settled = tokio::time::timeout(PATIENCE, worker.settle(&in_hand)).await;
    settled.expect("a settle does not wait for the sweep").unwrap();
    assert!(!worker.came.contains_key("late"));
    assert!(sweep.go_on(), "the settle has waited until the sweep was given up");
    worker.until(91).await;
    assert_eq!(worker.came.get("late"), Some(&1));
    assert_eq!(bench.agrees().await, 91);
}
