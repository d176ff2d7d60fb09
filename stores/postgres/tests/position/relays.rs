//! Relays over the store that die: one after the other, each takes over what the one before it had.

use std::time::{Duration, Instant};

use postroom_core::{Budget, RouteHealth, RouteSpec, Settlement, Store as _};

use crate::position::checker::Fact;
use crate::position::load::Load;
use crate::position::readers::{delivered, fact, relay, route};
use crate::position::shop::Shop;

/// Most deliveries in hand.
const IN_HAND: usize = 200;
const LEASE: Duration = Duration::from_millis(400);
/// Between two looks that find nothing after the load: as long as a relay's own, and longer than routes share what they have read.
const LOOK: Duration = Duration::from_millis(50);
/// How long the last relay may take after the load.
const PATIENCE: Duration = Duration::from_mins(5);

/// What the relays did.
#[derive(Debug, Default)]
pub(crate) struct Relayed {
    pub(crate) seen: Vec<Fact>,
    pub(crate) takes: usize,
    pub(crate) take_overs: usize,
    /// In the hands of relays that died: so many may come twice.
    pub(crate) in_hand: usize,
}

/// How a relay ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With deliveries in hand.
    Dies,
    /// Between a settle and the next take.
    DiesIdle,
    /// Gives its lanes up.
    Stops,
}

/// Delivers what the load appends until it has ended and all lanes have nothing more.
pub(crate) async fn deliver(shop: &Shop, load: &Load, lanes: usize) -> Relayed {
    let mut random = fastrand::Rng::with_seed(7);
    let mut relayed = Relayed::default();
    let mut over: Option<Instant> = None;
    loop {
        let store = shop.another().await;
        let source = store.source(&relay(LEASE), &route()).await.unwrap();
        let end = [End::Dies, End::DiesIdle, End::Stops][random.usize(..3)];
        let (began, life) = (Instant::now(), Duration::from_millis(random.u64(500..1_500)));
        let (mut renewed, mut empty) = (Instant::now(), 0);
        loop {
            if over.is_none() && load.is_over() {
                over = Some(Instant::now());
            }
            let dies = over.is_none() && began.elapsed() > life;
            if dies && end != End::Dies {
                break;
            }
            if renewed.elapsed() > LEASE / 3 {
                renewed = Instant::now();
                source.renew(&RouteHealth::running()).await.unwrap();
            }
            let take = source.take(Budget { rows: IN_HAND, bytes: 64 << 20 }).await.unwrap();
            assert_eq!(take.ownership.halted, None);
            relayed.takes += 1;
            relayed.seen.extend(take.deliveries.iter().map(fact));
            if dies {
                relayed.in_hand += take.deliveries.len();
                break;
            }
            let settlements: Vec<Settlement> = take.deliveries.iter().map(delivered).collect();
            let ownership = source.settle(&settlements).await.unwrap();
            assert_eq!(ownership.lost, [], "there is nobody else");
            let over = over.is_some_and(|over| {
                assert!(
                    over.elapsed() < PATIENCE,
                    "after {PATIENCE:?} of {lanes} lanes {} are held",
                    take.ownership.lanes
                );
                take.ownership.lanes == lanes && take.deliveries.is_empty() && !take.more
            });
            empty = if over { empty + 1 } else { 0 };
            if empty == 3 {
                return relayed;
            }
            if !take.more {
                tokio::time::sleep(if over { LOOK } else { Duration::from_millis(2) }).await;
            }
        }
        relayed.take_overs += 1;
        if end == End::Stops {
            source.release().await.unwrap();
        }
    }
}

/// Delivers what the load appends on one route of a store that serves others too, until the load has ended.
pub(crate) async fn serve(shop: &Shop, load: &Load, name: &str) -> Vec<Fact> {
    let route = RouteSpec { name: name.to_owned(), ..route() };
    let source = shop.store.source(&relay(PATIENCE), &route).await.unwrap();
    let (mut seen, mut empty) = (Vec::new(), 0);
    while empty < 3 {
        let over = load.is_over();
        let take = source.take(Budget { rows: IN_HAND, bytes: 64 << 20 }).await.unwrap();
        seen.extend(take.deliveries.iter().map(fact));
        let settlements: Vec<Settlement> = take.deliveries.iter().map(delivered).collect();
        source.settle(&settlements).await.unwrap();
        empty = if over && take.deliveries.is_empty() && !take.more { empty + 1 } else { 0 };
        if take.deliveries.is_empty() {
            tokio::time::sleep(if over { LOOK } else { Duration::from_millis(2) }).await;
        }
    }
    seen
}
