//! A connection to the store that is cut or late: no key stalls, nothing passes, nothing piles up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::Operate;
use postroom_conformance::changed;
use postroom_core::{
    Budget, Event, Failure, Lease, Maintenance, Notified, Ownership, Receipt, RelayIdentity, Retain, RouteHealth,
    RouteSpec, Schema, Settlement, Source, StartFrom, Store, StoreError, StoreErrorKind, Take,
};
use postroom_memory::{MemoryOptions, MemoryStore};
use postroom_relay::{MultiStoreRelay, NoObserver, Observer, Route, RouteObserver, StoreRoute};
use postroom_testing::{ScriptedTransport, TokioClock};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::engine::shop::{Shop, retry_every};

/// A connection whose calls can be refused, and whose answers to takes can be late.
#[derive(Clone, Default)]
struct Line(Arc<Knobs>);

#[derive(Default)]
struct Knobs {
    cut: AtomicBool,
    cut_settle: AtomicBool,
    cut_renew: AtomicBool,
    take_late_ms: AtomicU64,
    settle_late_ms: AtomicU64,
    hold_take: AtomicBool,
    // From the first take on: no other comes through, and a settle says that the lanes it is about are lost.
    robbed: AtomicBool,
    /// Every take says that the route stands still for a reason of its store's.
    halted: AtomicBool,
    handed: AtomicUsize,
    /// The route `late` cannot be registered yet.
    late_is_closed: AtomicBool,
}

impl Line {
    fn check(cut: &AtomicBool) -> Result<(), StoreError> {
        if cut.load(Ordering::SeqCst) { Err(StoreError::new(StoreErrorKind::Unreachable, "x", "cut")) } else { Ok(()) }
    }
}

struct LineStore(MemoryStore, Line);
struct LineSource(Arc<dyn Source>, Line);

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for LineStore {
    fn name(&self) -> &str {
        Store::name(&self.0)
    }
    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        if route.name == "late" {
            Line::check(&self.1.0.late_is_closed)?;
        }
        Ok(Arc::new(LineSource(self.0.source(relay, route).await?, self.1.clone())))
    }
    fn retain(&self) -> Arc<dyn Retain> {
        self.0.retain()
    }
    fn schema(&self) -> Option<Arc<dyn Schema>> {
        self.0.schema()
    }
    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        self.0.maintenance()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Source for LineSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let knobs = &self.1.0;
        Line::check(&knobs.cut)?;
        if knobs.handed.load(Ordering::SeqCst) > 0 {
            Line::check(&knobs.robbed)?;
        }
        let mut take = self.0.take(budget).await?;
        if knobs.halted.load(Ordering::SeqCst) {
            take.ownership.halted = Some("for a reason".to_owned());
        }
        knobs.handed.fetch_add(take.deliveries.len(), Ordering::SeqCst);
        sleep(Duration::from_millis(knobs.take_late_ms.load(Ordering::SeqCst))).await;
        while !take.deliveries.is_empty() && knobs.hold_take.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(take)
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        Line::check(&self.1.0.cut)?;
        Line::check(&self.1.0.cut_settle)?;
        if self.1.0.robbed.load(Ordering::SeqCst) {
            let lost = settlements.iter().map(|settlement| settlement.lane).collect();
            return Ok(Ownership { lanes: 1, lost, ..Ownership::default() });
        }
        sleep(Duration::from_millis(self.1.0.settle_late_ms.load(Ordering::SeqCst))).await;
        self.0.settle(settlements).await
    }
    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        Line::check(&self.1.0.cut)?;
        Line::check(&self.1.0.cut_renew)?;
        self.0.renew(health).await
    }
    async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }
    fn holds_transactions(&self) -> bool {
        self.0.holds_transactions()
    }
    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        self.0.disable(failure).await
    }
    async fn is_drained(&self) -> Result<bool, StoreError> {
        self.0.is_drained().await
    }
    fn bound(&self, deliveries: usize) {
        self.0.bound(deliveries);
    }
    fn notified(&self) -> Notified {
        self.0.notified()
    }
    fn watch(&self, every: Duration) -> bool {
        self.0.watch(every)
    }
}

fn start(shop: &Shop, line: &Line, transport: &ScriptedTransport, name: &str) -> CancellationToken {
    let options = shop.options.clone().name(name.to_owned());
    let stop = CancellationToken::new();
    let relay = shop.relay_on(LineStore(shop.store.clone(), line.clone()), transport.clone()).options(options);
    tokio::spawn(relay.run(stop.clone().cancelled_owned()));
    stop
}

async fn shop(lanes: u32) -> Shop {
    let mut shop = Shop::open().await;
    let clock = Arc::new(TokioClock::new());
    shop.store = MemoryStore::with(changed(MemoryOptions::default(), |o| {
        o.clock = clock;
        o.lanes = lanes;
    }));
    shop.store.register(std::slice::from_ref(&shop.route)).await.unwrap();
    shop.options.lease = Duration::from_secs(1);
    shop
}

/// What one route has finished, another that begins at the beginning may not see any more: of an adopted table, for instance.
#[tokio::test(start_paused = true)]
async fn no_route_of_a_store_delivers_before_all_of_them_are_registered() {
    let shop = shop(1).await;
    let late = RouteSpec::new("late").start_from(StartFrom::Beginning);
    shop.append("e1", "k").await;
    let (line, to_late) = (Line::default(), ScriptedTransport::new());
    line.0.late_is_closed.store(true, Ordering::SeqCst);
    let relay = shop.relay_on(LineStore(shop.store.clone(), line.clone()), shop.transport.clone());
    let relay = relay.route(Route::from_spec(late).to(to_late.clone()));
    tokio::spawn(relay.run(std::future::pending()));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(shop.transport.arrivals().len(), 0, "nothing is sent while a route is missing");
    line.0.late_is_closed.store(false, Ordering::SeqCst);
    shop.transport.delivered(1).await;
    to_late.delivered(1).await;
}

/// A key whose failure was dropped with its lane is never delivered again by this relay.
#[tokio::test(start_paused = true)]
async fn a_key_that_failed_as_its_lane_was_lost_goes_on_when_the_lane_comes_back() {
    let mut shop = shop(1).await;
    shop.retry = retry_every(Duration::from_secs(5), 5);
    let (a, b) = (Line::default(), Line::default());
    let (to_a, to_b) = (ScriptedTransport::new(), ScriptedTransport::new());
    to_a.fail_next(1, Failure::transient("t", "once"));
    a.0.cut_settle.store(true, Ordering::SeqCst);
    shop.append("e1", "k").await;
    let _a = start(&shop, &a, &to_a, "a");
    while to_a.arrivals().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_millis(300)).await; // its settle has failed at least once
    a.0.cut.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(3)).await; // the lease is over
    let stop_b = start(&shop, &b, &to_b, "b");
    to_b.delivered(1).await;
    a.0.cut.store(false, Ordering::SeqCst); // renews, and hears that the lane is lost
    sleep(Duration::from_secs(2)).await;
    a.0.cut_settle.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    stop_b.cancel();
    sleep(Duration::from_secs(5)).await;
    shop.append("other", "another").await;
    shop.append("e2", "k").await;
    sleep(Duration::from_mins(10)).await;
    let got = [to_a.delivered_ids(), to_b.delivered_ids()].concat();
    eprintln!("delivered {got:?}; handed to a {} times", a.0.handed.load(Ordering::SeqCst));
    assert!(got.contains(&"other".to_owned()), "the relay works");
    assert!(got.contains(&"e2".to_owned()), "e2 of key k never arrived");
}

/// A take whose answer is late brings deliveries of a lane that was lost meanwhile.
#[tokio::test(start_paused = true)]
async fn a_late_take_does_not_let_a_later_event_pass() {
    let mut shop = shop(1).await;
    shop.retry = retry_every(Duration::from_hours(1), 5);
    let (a, b) = (Line::default(), Line::default());
    let (to_a, to_b) = (ScriptedTransport::new(), ScriptedTransport::new());
    to_a.hold_when(|arrival| arrival.event.id == "e1");
    to_b.fail_when(|arrival| arrival.event.id == "e1", Failure::transient("t", "not now"));
    shop.append("e1", "k").await;
    let _a = start(&shop, &a, &to_a, "a");
    while to_a.arrivals().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    a.0.hold_take.store(true, Ordering::SeqCst);
    shop.append("e2", "k").await;
    while a.0.handed.load(Ordering::SeqCst) < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    a.0.cut.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(3)).await; // the lease is over
    let _b = start(&shop, &b, &to_b, "b");
    while to_b.arrivals().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    a.0.cut.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(2)).await; // a has renewed and knows that its lane is lost
    a.0.hold_take.store(false, Ordering::SeqCst); // now the answer comes
    sleep(Duration::from_secs(1)).await;
    to_a.release(&Err(Failure::transient("t", "no")));
    sleep(Duration::from_secs(30)).await;
    assert!(!to_a.arrivals().iter().any(|a| a.event.id == "e2"), "e2 went out under a lost lane");
}

/// A drain whose last take overlapped the settle of a failure ends although something is retrying.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_retry_it_has_just_settled() {
    for offset in 25..120 {
        let mut shop = shop(1).await;
        let line = Line::default();
        line.0.take_late_ms.store(20, Ordering::SeqCst);
        let transport = ScriptedTransport::new();
        transport.hold_when(|a| a.attempt == 1);
        shop.append("e1", "k").await;
        shop.retry = retry_every(Duration::from_secs(1), 5);
        shop.options.drain = true;
        let relay = shop.relay_on(LineStore(shop.store.clone(), line.clone()), transport.clone());
        let release = async {
            sleep(Duration::from_millis(offset)).await;
            transport.release(&Err(Failure::transient("t", "once")));
        };
        let (result, ()) = tokio::join!(relay.run(std::future::pending()), release);
        result.unwrap();
        let status = shop.status().await.status;
        assert_eq!((status.delivered, status.retrying), (1, 0), "delivered, retrying; outcome after {offset} ms");
    }
}

/// The lanes go one by one, for one reason: what is sent in between would come twice as well.
#[tokio::test(start_paused = true)]
async fn lanes_that_are_lost_one_after_the_other_repeat_no_more_than_the_window() {
    let mut shop = shop(8).await;
    shop.options.in_flight_max = 1;
    shop.options.lease = Duration::from_secs(30);
    let line = Line::default();
    line.0.robbed.store(true, Ordering::SeqCst);
    shop.fill(100, 100).await;
    let _stop = start(&shop, &line, &shop.transport, "a");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(shop.transport.arrivals().len(), 1, "sent without one settle that counted");
    line.0.robbed.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    assert!(shop.transport.arrivals().len() > 1, "and it goes on as soon as a take comes through");
}

/// What took the lanes of one route may have taken those of the next: the slots that come back must not carry what it
/// sends before it knows.
#[tokio::test(start_paused = true)]
async fn a_route_whose_neighbour_lost_its_lanes_sends_nothing_before_a_take_of_its_own() {
    let mut shop = shop(1).await;
    (shop.options.in_flight_max, shop.options.lease) = (8, Duration::from_hours(3));
    let lines = [Line::default(), Line::default()];
    let transports = [ScriptedTransport::new(), ScriptedTransport::new()];
    let mut relay = MultiStoreRelay::new(shop.options.clone(), Arc::new(NoObserver));
    for ((name, line), transport) in ["order", "late"].into_iter().zip(&lines).zip(&transports) {
        transport.hold_when(|_| true);
        let route = Route::named(name).matching(&format!("{name}.*")).from_beginning().to(transport.clone());
        relay = relay.route(StoreRoute::new(LineStore(shop.store.clone(), line.clone()), route));
    }
    tokio::spawn(relay.run(std::future::pending()));
    shop.fill(100, 100).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(transports[0].arrivals().len(), 6, "its own two and all that are common");
    lines[0].0.robbed.store(true, Ordering::SeqCst);
    let late = |n: usize| Event::new("late.one").key(format!("late-{n}"));
    Operate::append(&shop.store, &(0..20).map(late).collect::<Vec<_>>()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(transports[1].arrivals().len(), 2, "its own two");
    lines[1].0.take_late_ms.store(3_600_000, Ordering::SeqCst);
    transports[0].release(&Ok(Receipt::default()));
    sleep(Duration::from_secs(1)).await;
    lines[0].0.robbed.store(false, Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await; // the first has looked, and its slots are free
    assert_eq!(transports[1].arrivals().len(), 2, "sent on lanes that may be lost");
    sleep(Duration::from_hours(2)).await;
    assert_eq!(transports[1].arrivals().len(), 6, "its own take told that they are not");
}

/// Another relay may have taken the lanes meanwhile, and the take that found out may be on its way yet.
#[tokio::test(start_paused = true)]
async fn after_a_lease_ran_out_nothing_is_sent_before_a_take_has_looked() {
    let mut shop = shop(1).await;
    (shop.options.in_flight_max, shop.options.lease) = (8, Duration::from_secs(30));
    let line = Line::default();
    shop.transport.hold_when(|_| true);
    shop.fill(100, 100).await;
    let _stop = start(&shop, &line, &shop.transport, "a");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(shop.transport.arrivals().len(), 8);
    line.0.cut_renew.store(true, Ordering::SeqCst);
    line.0.take_late_ms.store(3_600_000, Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await;
    shop.transport.release(&Ok(Receipt::default()));
    line.0.cut_renew.store(false, Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await; // it was renewed
    assert_eq!(shop.transport.arrivals().len(), 8, "sent on lanes that may be lost");
    sleep(Duration::from_hours(3)).await;
    assert_eq!(shop.transport.arrivals().len(), 16, "the take told that they are not");
}

/// Counts changes of health.
#[derive(Debug, Default)]
struct Changes(AtomicUsize);

impl Observer for Changes {
    fn route(self: Arc<Self>, _: &str, _: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for Changes {
    fn health(&self, _: &RouteHealth) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_halted_route_says_so_once() {
    let mut shop = shop(1).await;
    shop.retry = retry_every(Duration::from_hours(1), 5);
    shop.options.lease = Duration::from_secs(30);
    let line = Line::default();
    let changes = Arc::new(Changes::default());
    let relay = shop.relay_on(LineStore(shop.store.clone(), line.clone()), shop.transport.clone());
    let relay = relay.observer(changes.clone());
    tokio::spawn(relay.run(std::future::pending()));
    shop.transport.fail_when(|_| true, Failure::transient("t", "no"));
    shop.append("bad", "bad").await;
    sleep(Duration::from_secs(1)).await;
    line.0.halted.store(true, Ordering::SeqCst);
    shop.fill(10, 1).await;
    sleep(Duration::from_mins(1)).await;
    let changes = changes.0.load(Ordering::SeqCst);
    assert!(changes <= 3, "{changes} changes of health in a minute");
}

/// Counts how often an engine goes round.
#[derive(Debug, Default)]
struct Turns(AtomicUsize);

impl Observer for Turns {
    fn route(self: Arc<Self>, _: &str, _: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for Turns {
    fn turned(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whoever watches it can tell that it waits and is not stuck.
#[tokio::test(start_paused = true)]
async fn an_engine_whose_store_does_not_answer_still_goes_round_every_second() {
    let mut shop = shop(1).await;
    shop.options.lease = Duration::from_hours(3);
    let (line, turns) = (Line::default(), Arc::new(Turns::default()));
    line.0.take_late_ms.store(3_600_000, Ordering::SeqCst);
    let relay = shop.relay_on(LineStore(shop.store.clone(), line), shop.transport.clone());
    tokio::spawn(relay.observer(turns.clone()).run(std::future::pending()));
    sleep(Duration::from_mins(1)).await;
    let before = turns.0.load(Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await;
    let minute = turns.0.load(Ordering::SeqCst) - before;
    assert!((59..=61).contains(&minute), "{minute} turns in a minute");
}

/// While settles fail, a failing key's backlog must not come into memory.
#[tokio::test(start_paused = true)]
async fn what_waits_to_be_returned_is_bounded_too() {
    let mut shop = shop(1).await;
    shop.retry = retry_every(Duration::from_hours(1), 5);
    shop.transport.fail_when(|_| true, Failure::transient("t", "no"));
    let line = Line::default();
    line.0.cut_settle.store(true, Ordering::SeqCst);
    let _stop = start(&shop, &line, &shop.transport, "a");
    shop.fill(50_000, 1).await;
    sleep(Duration::from_mins(1)).await;
    let held = line.0.handed.load(Ordering::SeqCst);
    assert!(held <= 3_000, "{held} deliveries in memory, a take brings 500");
}

/// One halted lane must not make the engine read the whole log of the others into memory.
#[tokio::test(start_paused = true)]
async fn a_halted_lane_does_not_lift_the_limits_of_the_others() {
    let mut shop = shop(4).await;
    shop.retry = retry_every(Duration::from_hours(1), 5);
    let line = Line::default();
    let transport = ScriptedTransport::new();
    transport.fail_when(|a| a.event.key.as_deref() == Some("bad"), Failure::transient("t", "no"));
    let _stop = start(&shop, &line, &transport, "a");
    shop.append("bad0", "bad").await;
    sleep(Duration::from_secs(1)).await;
    line.0.halted.store(true, Ordering::SeqCst);
    transport.go_down();
    shop.fill(50_000, 50_000).await;
    let before = line.0.handed.load(Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await;
    let held = line.0.handed.load(Ordering::SeqCst) - before;
    assert!(held <= 3_000, "{held} deliveries in memory, a take brings 500");
}

/// A receiver's absurd wish holds up only its own event.
#[tokio::test(start_paused = true)]
async fn an_absurd_retry_after_does_not_stop_the_route() {
    let shop = shop(1).await;
    let line = Line::default();
    let transport = ScriptedTransport::new();
    transport.fail_when(
        |a| a.event.id == "e1",
        Failure::transient("t", "later").retry_after(Duration::from_secs(u64::MAX / 2)),
    );
    let _stop = start(&shop, &line, &transport, "a");
    shop.append("e1", "k").await;
    sleep(Duration::from_secs(1)).await;
    Operate::append(&shop.store, &[Event::new("t").id("e2").key("k2")]).await.unwrap();
    sleep(Duration::from_mins(1)).await;
    let row = shop.status().await.status;
    assert_eq!(row.delivered, 1);
}

/// A crash before the death is in the store would bring the event back after those behind it.
#[tokio::test(start_paused = true)]
async fn after_a_death_the_key_waits_until_the_death_is_in_the_store() {
    let shop = shop(1).await;
    let (line, transport) = (Line::default(), ScriptedTransport::new());
    transport.fail_when(|arrival| arrival.event.id == "e1", Failure::permanent("t", "never"));
    line.0.cut_settle.store(true, Ordering::SeqCst);
    shop.append("e1", "k").await;
    shop.append("e2", "k").await;
    let _stop = start(&shop, &line, &transport, "a");
    transport.arrived(1).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(transport.arrivals().len(), 1, "e2 passed a death that nobody else knows of");
    line.0.cut_settle.store(false, Ordering::SeqCst);
    transport.delivered(1).await;
    assert_eq!(transport.delivered_ids(), ["e2"]);
}

/// Found by a schedule over PostgreSQL: while a part of the key goes back, a take brings the rest, which goes back too; and so on.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_a_key_with_more_events_than_a_take_brings_does_not_stop_the_route() {
    for (late, settle_late) in [(1, 1), (30, 60), (60, 30), (60, 60), (60, 100), (100, 60), (100, 100), (250, 250)] {
        let mut shop = Shop::open().await;
        shop.options.take.rows = 3;
        shop.options.in_flight_max = 4;
        shop.transport.fail_when(|a| a.event.id == "0", Failure::permanent("test", "never"));
        shop.fill(12, 1).await;
        let line = Line::default();
        line.0.take_late_ms.store(late, Ordering::SeqCst);
        line.0.settle_late_ms.store(settle_late, Ordering::SeqCst);
        let stop = start(&shop, &line, &shop.transport, "a");
        let all = tokio::time::timeout(Duration::from_mins(2), shop.transport.delivered(11)).await;
        assert!(
            all.is_ok(),
            "takes that last {late} ms and settles of {settle_late} ms: {:?}",
            shop.transport.delivered_ids()
        );
        stop.cancel();
    }
}
