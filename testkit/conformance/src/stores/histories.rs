//! Long random histories: whatever happens in whatever order, nothing is lost, nobody overtakes, the verification agrees.
//!
//! Each history has a seed; a failure prints it. There are few: thousands of other histories, with several relays, are those
//! of `cargo xtask simulate`. The relay here behaves as the engine does: one of a key in flight, and
//! what is held behind a failed one is given back.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use postroom_core::{Clock, Delivery, Event, OnFailure, Retention, RouteSpec, Settlement};

use super::bench::{LEASE, SECOND, dead, delivered, event, ids, named, retry, returned};
use super::{Bench, StoreHarness, Worker};

const SEEDS: u64 = 3;
const STEPS: u32 = 150;
const KEYS: usize = 6;

pub async fn in_a_random_history_nothing_is_lost_and_nobody_overtakes<H: StoreHarness>(_: &Bench<H>) {
    for seed in 1..=SEEDS {
        History::<H>::new(seed, OnFailure::Block).await.live().await;
    }
}

pub async fn in_a_random_history_that_skips_failures_nothing_is_lost<H: StoreHarness>(_: &Bench<H>) {
    for seed in 1..=SEEDS {
        History::<H>::new(seed, OnFailure::Skip).await.live().await;
    }
}

struct History<H> {
    seed: u64,
    bench: Bench<H>,
    route: RouteSpec,
    rng: Rng,
    worker: Worker,
    /// In the relay's hands, in the order they came.
    hand: Vec<Delivery>,
    /// How many of each key were appended.
    appended: [u32; KEYS],
    /// Every delivery that was settled as such, in order.
    arrived: Vec<String>,
    died: BTreeSet<String>,
    /// Appended with a time of their own; these keep no order.
    delayed: BTreeSet<String>,
}

impl<H: StoreHarness> History<H> {
    async fn new(seed: u64, on_failure: OnFailure) -> Self {
        let bench = Bench::<H>::open().await;
        let route = RouteSpec { on_failure, ..named("all") };
        let worker = bench.serve(&route).await;
        Self {
            seed,
            bench,
            route,
            rng: Rng::with_seed(seed),
            worker,
            hand: Vec::new(),
            appended: [0; KEYS],
            arrived: Vec::new(),
            died: BTreeSet::new(),
            delayed: BTreeSet::new(),
        }
    }

    async fn live(mut self) {
        for _ in 0..STEPS {
            match self.rng.u32(..20) {
                0..=5 => self.append().await,
                6..=10 => self.take().await,
                11..=15 => self.settle().await,
                16 => self.bench.pass(self.rng.u32(1..8) * SECOND),
                17 => self.hand_over().await,
                18 => self.crash().await,
                _ => drop(self.bench.admin().prune(&retention(), false).await.unwrap()),
            }
            self.worker.renew().await;
            self.bench.agrees().await;
        }
        self.finish().await;
    }

    async fn append(&mut self) {
        let later = self.bench.harness.clock().now() + 5 * SECOND;
        let mut batch: Vec<Event> = Vec::new();
        for _ in 0..self.rng.usize(1..8) {
            let key = self.rng.usize(..KEYS);
            self.appended[key] += 1;
            let mut one = event(&format!("k{key}"), self.appended[key]);
            if self.rng.u32(..12) == 0 {
                one = one.available_at(later);
                self.delayed.insert(one.id.clone());
            }
            batch.push(one);
        }
        self.bench.append(&batch).await;
    }

    async fn take(&mut self) {
        let rows = self.rng.usize(1..20);
        let budget = postroom_core::Budget { rows, bytes: 1 << 20 };
        let taken = self.worker.source.take(budget).await.unwrap().deliveries;
        assert!(taken.len() <= rows, "seed {}", self.seed);
        for one in taken {
            let again = self.hand.iter().any(|held| held.position == one.position);
            assert!(!again, "seed {}: {} is in hand already", self.seed, one.event.id);
            self.hand.push(one);
        }
    }

    /// Settles some of what may be in flight: the first in hand of each key, or one that keeps no order.
    async fn settle(&mut self) {
        let mut settlements: Vec<Settlement> = Vec::new();
        let mut busy: BTreeSet<String> = BTreeSet::new();
        let mut failed: BTreeSet<String> = BTreeSet::new();
        for one in std::mem::take(&mut self.hand) {
            let key = one.order_key().map(str::to_owned);
            if key.as_ref().is_some_and(|key| failed.contains(key)) {
                settlements.push(returned(&one));
                continue;
            }
            if key.as_ref().is_some_and(|key| busy.contains(key)) || self.rng.bool() {
                busy.extend(key);
                self.hand.push(one);
                continue;
            }
            match self.rng.u32(..10) {
                0..=6 => {
                    self.arrived.push(one.event.id.clone());
                    settlements.push(delivered(&one));
                }
                7 => {
                    failed.extend(key);
                    settlements.push(retry(&one, self.rng.u32(1..6) * SECOND));
                }
                8 => {
                    self.died.insert(one.event.id.clone());
                    settlements.push(dead(&one));
                }
                _ => {
                    failed.extend(key);
                    settlements.push(returned(&one));
                }
            }
        }
        let ownership = self.worker.settle(&settlements).await;
        assert!(ownership.lost.is_empty(), "seed {}", self.seed);
        if self.rng.u32(..4) == 0 {
            self.worker.settle(&settlements).await;
        }
    }

    /// A graceful stop: nothing comes twice.
    async fn hand_over(&mut self) {
        let back: Vec<Settlement> = self.hand.drain(..).map(|one| returned(&one)).collect();
        self.worker.settle(&back).await;
        self.worker.source.release().await.unwrap();
        self.worker = self.bench.serve(&self.route).await;
    }

    /// The relay dies with its hands full; another takes over when the lease is over.
    async fn crash(&mut self) {
        self.hand.clear();
        self.bench.pass(LEASE + SECOND);
        self.worker = self.bench.serve(&self.route).await;
    }

    async fn finish(mut self) {
        let seed = self.seed;
        let back: Vec<Settlement> = self.hand.drain(..).map(|one| returned(&one)).collect();
        self.worker.settle(&back).await;
        loop {
            self.bench.pass(10 * SECOND);
            self.worker.renew().await;
            let taken = self.worker.take().await;
            if taken.is_empty() {
                break;
            }
            self.arrived.extend(ids(&taken));
            self.worker.deliver(&taken).await;
        }
        self.bench.agrees().await;

        let mut times: BTreeMap<&str, u32> = BTreeMap::new();
        for id in &self.arrived {
            *times.entry(id).or_default() += 1;
        }
        assert!(times.values().all(|times| *times == 1), "seed {seed}: delivered twice: {times:?}");
        for (key, appended) in self.appended.iter().enumerate() {
            for n in 1..=*appended {
                let id = format!("k{key}-{n}");
                let there = times.contains_key(id.as_str()) != self.died.contains(&id);
                assert!(there, "seed {seed}: {id} is neither delivered nor dead, or both");
            }
            if self.route.on_failure == OnFailure::Block {
                self.check_order(key);
            }
        }
        let dead: BTreeSet<String> = self.bench.dead().await.into_iter().map(|row| row.id).collect();
        assert_eq!(dead, self.died, "seed {seed}");
        let status = self.bench.detail("all").await.status;
        assert_eq!((status.due, status.retrying, status.blocked_keys), (Some(0), 0, 0), "seed {seed}");
        assert_eq!(status.delivered, self.arrived.len() as u64, "seed {seed}");
    }

    fn check_order(&self, key: usize) {
        let prefix = format!("k{key}-");
        let came: Vec<u32> = self
            .arrived
            .iter()
            .filter(|id| !self.delayed.contains(*id))
            .filter_map(|id| id.strip_prefix(&prefix)?.parse().ok())
            .collect();
        assert!(came.is_sorted(), "seed {}: key k{key} came as {came:?}", self.seed);
    }
}

/// Keeps little, so that pruning happens in the middle of everything.
fn retention() -> Retention {
    Retention { delivered: Some(5 * SECOND), attempts: Some(5 * SECOND), inbox: None }
}
