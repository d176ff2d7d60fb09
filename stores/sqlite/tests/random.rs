//! Any order of appends, takes, verdicts, crashes and operators: nothing is lost, keys keep their order, counts agree.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers are part of the tests")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_admin::view::ReplayKind;
use postroom_admin::{ManagedStore as _, Selection, replay_at_once};
use postroom_core::{Budget, Delivery, Event, OnDead, OnFailure, RouteHealth, RouteSpec, Settlement, Source};

use crate::common::*;

/// A small generator: a failing run is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

struct Run {
    shop: Shop,
    route: RouteSpec,
    random: Random,
    source: Arc<dyn Source>,
    boots: u32,
    appended: u32,
    held: Vec<Delivery>,
    delivered: BTreeSet<i64>,
    // Per key the last number that was delivered in order.
    last: BTreeMap<String, i64>,
    // Keys whose order an operator gave up.
    free: HashSet<String>,
    discarded: BTreeSet<i64>,
}

impl Run {
    async fn new(seed: u64, route: RouteSpec) -> Self {
        let shop = Shop::open().await;
        let source = shop.source("boot-0", &route).await;
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self {
            shop,
            route,
            random,
            source,
            boots: 0,
            appended: 0,
            held: Vec::new(),
            delivered: BTreeSet::new(),
            last: BTreeMap::new(),
            free: HashSet::new(),
            discarded: BTreeSet::new(),
        }
    }

    async fn step(&mut self) {
        match self.random.below(20) {
            0..=4 => self.append().await,
            5..=9 => self.take().await,
            10..=14 => self.settle(4).await,
            15 => self.crash().await,
            16 => self.stop().await,
            17 => self.operator().await,
            _ => self.shop.clock.advance(Duration::from_millis(700)),
        }
        self.source.renew(&RouteHealth::running()).await.unwrap();
        self.shop.verify().await;
    }

    async fn append(&mut self) {
        for _ in 0..=self.random.below(4) {
            self.appended += 1;
            let mut event = Event::new("t").id(format!("e-{}", self.appended));
            if self.random.below(8) > 0 {
                event = event.key(format!("k{}", self.random.below(3)));
            }
            if self.random.below(10) == 0 {
                event = event.available_at(postroom_core::Clock::now(&*self.shop.clock) + Duration::from_secs(2));
            }
            self.shop.append(&[event]).await;
        }
    }

    async fn take(&mut self) {
        let rows = usize::try_from(1 + self.random.below(8)).unwrap();
        let budget = Budget { rows, bytes: 1 << 20 };
        let taken = self.source.take(budget).await.unwrap();
        assert!(taken.ownership.lost.is_empty());
        for delivery in &taken.deliveries {
            assert!(
                self.held.iter().all(|h| h.handle != delivery.handle),
                "{} was handed out twice",
                delivery.event.id
            );
        }
        self.held.extend(taken.deliveries);
    }

    /// What an engine does: one per key at a time; when one fails, those behind it are given back.
    async fn settle(&mut self, verdicts: u64) {
        let mut settlements: Vec<Settlement> = Vec::new();
        let mut busy: HashSet<String> = HashSet::new();
        let mut given_back: HashSet<String> = HashSet::new();
        let mut kept = Vec::new();
        for delivery in std::mem::take(&mut self.held) {
            let key = delivery.order_key().map(str::to_owned);
            if key.as_ref().is_some_and(|key| given_back.contains(key)) {
                settlements.push(returned(&delivery));
                continue;
            }
            let waits = key.as_ref().is_some_and(|key| busy.contains(key));
            if waits || settlements.len() as u64 >= verdicts {
                busy.extend(key);
                kept.push(delivery);
                continue;
            }
            match self.random.below(6) {
                0 => {
                    settlements.push(retry(&delivery, self.random.below(3)));
                    if self.route.on_failure == OnFailure::Block {
                        given_back.extend(key);
                    }
                }
                1 => {
                    settlements.push(dead(&delivery));
                    if self.route.on_dead == OnDead::Hold {
                        given_back.extend(key);
                    }
                }
                2 => {
                    settlements.push(returned(&delivery));
                    given_back.extend(key);
                }
                _ => {
                    settlements.push(delivered(&delivery));
                    self.got_through(&delivery);
                }
            }
        }
        self.held = kept;
        if settlements.is_empty() {
            return;
        }
        for _ in 0..=self.random.below(2) {
            settle(&self.source, &settlements).await;
        }
    }

    fn got_through(&mut self, delivery: &Delivery) {
        let seq = delivery.position.unwrap();
        if let Some(key) = delivery.order_key().filter(|key| !self.free.contains(*key)) {
            let last = self.last.insert(key.to_owned(), seq).unwrap_or(0);
            // The same one again is a duplicate, which a crash may cause.
            assert!(last <= seq, "key {key}: {seq} came after {last}");
        }
        self.delivered.insert(seq);
    }

    async fn crash(&mut self) {
        self.shop.clock.advance(LEASE);
        self.replace().await;
    }

    async fn stop(&mut self) {
        self.source.release().await.unwrap();
        self.replace().await;
    }

    async fn replace(&mut self) {
        self.boots += 1;
        self.held.clear();
        self.source = self.shop.source(&format!("boot-{}", self.boots), &self.route).await;
    }

    async fn operator(&mut self) {
        let admin = self.shop.store.admin();
        let everything = Selection::default();
        match self.random.below(5) {
            0 => {
                replay_at_once(&*admin, ReplayKind::Dead, &everything, &actor()).await.unwrap();
            }
            1 => {
                self.discarded.extend(admin.dead(&everything, 0, 1_000).await.unwrap().iter().map(|d| d.position));
                admin.discard_dead(&everything, false, &actor()).await.unwrap();
            }
            2 => {
                let key = format!("k{}", self.random.below(3));
                // Nothing to let go is fine here.
                let _ = admin.unblock("r", &key, &actor()).await;
                self.free.insert(key);
            }
            3 => {
                let key = format!("k{}", self.random.below(3));
                // Nothing to skip is fine here.
                let _ = admin.skip_head("r", &key, &actor()).await;
                self.free.insert(key);
            }
            _ => {
                replay_at_once(&*admin, ReplayKind::Settled, &everything, &actor()).await.unwrap();
            }
        }
    }

    /// Everything gets through from here on; then every event has an end that can be seen.
    async fn finish(mut self) {
        self.stop().await;
        for round in 0.. {
            assert!(round < 500, "it does not come to an end");
            self.source.renew(&RouteHealth::running()).await.unwrap();
            let taken = self.source.take(ALL).await.unwrap();
            let settlements: Vec<_> = taken.deliveries.iter().map(delivered).collect();
            taken.deliveries.iter().for_each(|d| self.got_through(d));
            settle(&self.source, &settlements).await;
            if let (true, Some(wait)) = (settlements.is_empty(), taken.next_due) {
                self.shop.clock.advance(wait);
            } else if settlements.is_empty() {
                // Keys that an operator holds are let go, one dead letter after the other.
                let admin = self.shop.store.admin();
                let dead = admin.dead(&Selection::default(), 0, 10_000).await.unwrap();
                if dead.is_empty() {
                    break;
                }
                replay_at_once(&*admin, ReplayKind::Dead, &Selection::default(), &actor()).await.unwrap();
            }
        }
        self.shop.verify().await;
        let missing: Vec<i64> = (1..=i64::from(self.appended))
            .filter(|seq| !self.delivered.contains(seq) && !self.discarded.contains(seq))
            .collect();
        assert!(missing.is_empty(), "lost: {missing:?}");
        assert_eq!(self.shop.number("select count(*) from postroom_delivery").await, 0);
    }
}

async fn check(on_failure: OnFailure, on_dead: OnDead, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut run = Run::new(seed, RouteSpec { on_failure, on_dead, ..from_beginning("r") }).await;
        // Shown only when the test fails.
        println!("seed {seed}, {on_failure:?}, {on_dead:?}");
        for _ in 0..120 {
            run.step().await;
        }
        run.finish().await;
    }
}

#[tokio::test]
async fn whatever_happens_nothing_is_lost_and_blocked_keys_keep_their_order() {
    check(OnFailure::Block, OnDead::Continue, 1..9).await;
}

#[tokio::test]
async fn whatever_happens_nothing_is_lost_when_dead_letters_hold_their_keys() {
    check(OnFailure::Block, OnDead::Hold, 100..108).await;
}

#[tokio::test]
async fn whatever_happens_nothing_is_lost_when_failures_are_passed() {
    check(OnFailure::Skip, OnDead::Continue, 200..204).await;
}
