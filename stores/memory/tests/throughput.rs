//! The store must not be what an engine waits for: take and settle cost the same however long the log is.

use std::time::{Duration, Instant};

use postroom_admin::{ManagedStore as _, Verify};
use postroom_core::{
    Budget, Delivery, Event, Receipt, RelayIdentity, RouteSpec, Settlement, StartFrom, Store, Verdict,
};
use postroom_memory::MemoryStore;

const EVENTS: usize = 100_000;

#[tokio::test]
async fn a_long_log_is_taken_and_settled_to_the_end_and_the_audit_agrees() {
    let store = MemoryStore::new();
    let events: Vec<Event> =
        (0..EVENTS).map(|n| Event::new("order.placed").key(format!("order-{}", n % 1000))).collect();
    store.admin().append(&events).await.unwrap();
    let relay =
        RelayIdentity { name: "r".into(), boot: "b".into(), version: "0".into(), lease: Duration::from_secs(30) };
    let route = RouteSpec { start: StartFrom::Beginning, ..RouteSpec::new("all") };
    let source = store.source(&relay, &route).await.unwrap();

    let started = Instant::now();
    let mut delivered = 0;
    loop {
        let take = source.take(Budget { rows: 500, bytes: 4 << 20 }).await.unwrap();
        if take.deliveries.is_empty() {
            break;
        }
        delivered += take.deliveries.len();
        let settle = |delivery: &Delivery| Settlement {
            handle: delivery.handle,
            lane: delivery.lane,
            verdict: Verdict::Delivered(Receipt::default()),
            took: Duration::ZERO,
        };
        source.settle(&take.deliveries.iter().map(settle).collect::<Vec<_>>()).await.unwrap();
    }
    let took = started.elapsed();

    assert_eq!(delivered, EVENTS);
    assert!(store.verify().await.unwrap().iter().all(|row| row.differences.is_empty()));
    println!("{:.0} deliveries/s through take and settle", EVENTS as f64 / took.as_secs_f64());
}
