//! Connections lost at the commit: the caller does not know, the store does, and asking again harms nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, Filter, Outbox as _, RouteSpec, Store as _};
use postroom_testbed::proxy::{Mode, Moment, Trigger};
use postroom_testbed::{FaultProxy, Servers};

use crate::hazards::bench::{Bench, LEASE, Worker, delivered, events, relay, retry, rounds, route};

struct Cut {
    bench: Bench,
    proxy: FaultProxy,
    /// The store by way of the proxy.
    store: postroom_postgres::PostgresStore,
}

impl Cut {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let proxy = FaultProxy::to_postgres(Servers::find().port("postgres")).await;
        let store = bench.by(proxy.url("postgres")).await;
        Self { bench, proxy, store }
    }

    async fn at(&self, trigger: Trigger, moment: Moment) {
        self.proxy.set(Mode::CutAt(trigger, moment)).await;
    }
}

/// H-08
#[tokio::test]
async fn an_append_lost_at_its_commit_can_be_looked_up_and_repeated_without_a_second_row() {
    let Cut { bench, proxy, store } = Cut::new().await;
    let each = rounds(60, 1_000);
    for n in 0..2 * each {
        let moment = if n % 2 == 0 { Moment::Before } else { Moment::AfterReply };
        let (id, word) = (n.to_string(), format!("request-{n}"));
        let event = Event::new("order.placed").key(format!("order-{}", n % 7)).id(&id);
        proxy.set(Mode::CutAt(Trigger::Commit, moment)).await;
        let mut tx = store.begin().await.unwrap();
        drop(store.append_once(&mut tx, &word, &event).await.unwrap());
        tx.commit().await.expect_err("the connection is cut");
        proxy.set(Mode::Pass).await;
        assert_eq!(store.committed(&id).await.unwrap(), moment == Moment::AfterReply, "{n}");
        let mut tx = store.begin().await.unwrap();
        let again = store.append_once(&mut tx, &word, &event).await.unwrap();
        assert_eq!(again.ids().is_empty(), moment == Moment::AfterReply, "{n}");
        tx.commit().await.unwrap();
        again.wake();
        assert!(store.committed(&id).await.unwrap());
    }
    assert!(proxy.counts().cuts >= 2 * each as u64);
    bench.no_doubles().await;
    let mut worker = bench.worker().await;
    worker.drain().await;
    assert_eq!((worker.came.len(), worker.twice()), (2 * each, 0));
    assert_eq!(bench.agrees().await, 2 * each as u64);
}

/// H-08
#[tokio::test]
async fn a_settle_of_what_got_through_lost_at_its_reply_can_be_repeated() {
    let cut = Cut::new().await;
    let statement = Trigger::Statement(".checkpoint\n  (route, lane, term".to_owned());
    let mut worker = Worker::on(&cut.store, LEASE).await;
    let each = rounds(35, 1_000);
    for n in 0..2 * each {
        let moment = if n % 2 == 0 { Moment::Before } else { Moment::AfterReply };
        cut.bench.append(&events(n, 1)).await;
        let taken = worker.take(10).await;
        assert_eq!(taken.len(), 1);
        cut.at(statement.clone(), moment).await;
        worker.settle(&taken).await.expect_err("the connection is cut");
        cut.proxy.set(Mode::Pass).await;
        worker.settle(&taken).await.unwrap();
        if moment == Moment::Before {
            let again = worker.take(10).await;
            worker.settle(&again).await.unwrap();
        }
    }
    worker.drain().await;
    assert_eq!(
        (worker.came.len(), worker.twice()),
        (2 * each, each),
        "only what the server never heard of comes twice"
    );
    assert_eq!(cut.bench.agrees().await, 2 * each as u64);
}

/// H-08
#[tokio::test]
async fn a_settle_of_failures_lost_at_its_commit_can_be_repeated() {
    let cut = Cut::new().await;
    let mut worker = Worker::on(&cut.store, LEASE).await;
    let each = rounds(35, 1_000);
    for n in 0..2 * each {
        let moment = if n % 2 == 0 { Moment::Before } else { Moment::AfterReply };
        cut.bench.append(&events(n, 1)).await;
        // A failure at first: its row is written in a transaction, and so is its end.
        let first = worker.take(10).await;
        let failed: Vec<_> = first.iter().map(|one| retry(one, Duration::ZERO)).collect();
        cut.at(Trigger::Commit, moment).await;
        worker.source.settle(&failed).await.expect_err("the connection is cut");
        cut.proxy.set(Mode::Pass).await;
        worker.source.settle(&failed).await.unwrap();
        let second = worker.take(10).await;
        assert_eq!(second.len(), 1);
        assert_eq!(second[0].attempts, u32::from(moment == Moment::AfterReply), "a failure counts once");
        let through: Vec<_> = second.iter().map(delivered).collect();
        if moment == Moment::AfterReply {
            cut.at(Trigger::Commit, moment).await;
            worker.source.settle(&through).await.expect_err("the connection is cut");
            cut.proxy.set(Mode::Pass).await;
        }
        worker.source.settle(&through).await.unwrap();
    }
    worker.drain().await;
    assert_eq!((worker.came.len(), worker.twice()), (2 * each, 2 * each));
    assert_eq!(cut.bench.agrees().await, 2 * each as u64);
    assert_eq!(cut.bench.one("select count(*) from postroom.delivery").await, "0");
    assert_eq!(cut.bench.one("select count(*) from postroom.attempt").await, each.to_string());
}

/// H-08: also behind the pool of an admin, whose append is ours to commit.
#[tokio::test]
async fn an_append_by_an_operator_says_that_its_outcome_is_unknown() {
    let Cut { bench, proxy, store } = Cut::new().await;
    proxy.set(Mode::CutAt(Trigger::Commit, Moment::AfterReply)).await;
    let error = store.admin().append(&events(1, 1)).await.unwrap_err();
    assert_eq!(error.kind, postroom_core::StoreErrorKind::CommitUnknown);
    assert!(bench.store.committed("1").await.unwrap());
}

/// H-01
#[tokio::test]
async fn what_was_committed_late_and_is_not_wanted_is_not_shown_as_delivered() {
    let bench = Bench::with(|options| options.lanes(1)).await;
    let wanted = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..route() };
    let source = bench.store.source(&relay(LEASE), &wanted).await.unwrap();
    let mut worker = Worker { source, came: BTreeMap::new() };
    bench.append(&events(0, 1)).await;
    let mut open = bench.store.begin().await.unwrap();
    let late = Event::new("other.late").id("late").key("order-0");
    drop(bench.store.append(&mut open, &late).await.unwrap());
    bench.append(&events(1, 1)).await;
    let taken = worker.take(10).await;
    assert_eq!(taken.len(), 2);
    worker.settle(&taken).await.unwrap();
    open.commit().await.unwrap();
    worker.drain().await;
    let shown = async |id: &str| bench.store.admin().event(id, false).await.unwrap().unwrap().routes.remove(0);
    let (first, late) = (shown("0").await, shown("late").await);
    assert_eq!((first.state, first.delivered_at.is_some()), ("delivered", true));
    assert_eq!((late.state, late.delivered_at), ("filtered", None), "it lies between two that one receipt covers");
}
