//! What happens between two statements of one relay: a gate holds the second, the test does something, and lets it go on.

use std::sync::Arc;
use std::time::Duration;

use postroom_conformance::servers::proxy::{Sign, Waiting};
use postroom_conformance::servers::{FaultProxy, Servers};
use postroom_core::{Event, Outbox as _};
use postroom_postgres::Postgres;
use tokio::sync::mpsc;

use crate::bench::{Bench, LEASE, PATIENCE, Worker, append, delivered, events, retry, wait_for};

/// A relay's store, of which every statement with this text is held until the test lets it go on.
struct Held {
    store: Postgres,
    held: mpsc::UnboundedReceiver<Waiting>,
    _proxy: FaultProxy,
}

impl Held {
    async fn at(bench: &Bench, text: &'static str) -> Self {
        let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
        let (hold, held) = mpsc::unbounded_channel();
        let mut gate = proxy.gate();
        tokio::spawn(async move {
            while let Some(sign) = gate.next().await {
                match sign {
                    // Dropped with the test, it goes on.
                    Sign::Waits(waiting) if waiting.text.contains(text) => drop(hold.send(waiting)),
                    Sign::Waits(waiting) => drop(waiting.go_on()),
                    _ => {}
                }
            }
        });
        Self { store: bench.by(proxy.url("postgres")).await, held, _proxy: proxy }
    }

    async fn next(&mut self) -> Waiting {
        let next = tokio::time::timeout(PATIENCE, self.held.recv()).await;
        next.expect("the statement comes").expect("the gate is kept")
    }
}

fn of_key(id: &str) -> Event {
    Event::new("order.placed").id(id).key("k")
}

/// H-100
#[tokio::test]
async fn a_blocker_settled_between_two_questions_of_one_take_lets_nobody_overtake() {
    let bench = Bench::with(|options| options.lanes(1)).await;
    let mut relay = Held::at(&bench, "unnest($2::text[], $3::int8[]) as u(key, seq)").await;
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

    let source = Arc::clone(&worker.source);
    let take = tokio::spawn(async move { source.take(postroom_core::Budget { rows: 10, bytes: 1 << 20 }).await });
    // The first question is about the late one, the second about the fresh one.
    relay.next().await.go_on();
    let second = relay.next().await;
    worker.settle(&blocker).await.unwrap();
    second.go_on();
    let taken = take.await.unwrap().unwrap().deliveries;
    let mut order: Vec<String> = taken.iter().map(|one| one.event.id.clone()).collect();
    worker.settle_all(&taken.iter().map(delivered).collect::<Vec<_>>()).await;
    let Held { held, .. } = &mut relay;
    wait_for("both", async || {
        let look = worker.look(10);
        tokio::pin!(look);
        let take = loop {
            tokio::select! {
                take = &mut look => break take.unwrap(),
                Some(waiting) = held.recv() => drop(waiting.go_on()),
            }
        };
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
async fn settles_and_other_lanes_go_on_while_a_sweep_takes_its_time() {
    let bench = Bench::with(|options| options.lanes(4)).await;
    let mut relay = Held::at(&bench, "unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[]) as w(lane, x, lo, hwm)").await;
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
    open.commit().await.unwrap();

    wait_for("the sweep", async || {
        let take = worker.look(10).await.unwrap();
        worker.settle(&take.deliveries).await.unwrap();
        !relay.held.is_empty()
    })
    .await;
    let sweep = relay.next().await;
    let settled = tokio::time::timeout(PATIENCE, worker.settle(&in_hand)).await;
    settled.expect("a settle does not wait for the sweep").unwrap();
    let before = worker.came.len();
    bench.append(&events(90, 40)).await;
    wait_for("events of other lanes", async || {
        let take = worker.look(40).await.unwrap();
        worker.settle(&take.deliveries).await.unwrap();
        worker.came.len() > before
    })
    .await;
    assert!(!worker.came.contains_key("late"));
    sweep.go_on();
    worker.until(131).await;
    assert_eq!(worker.came.get("late"), Some(&1));
    assert_eq!(bench.agrees().await, 131);
}
