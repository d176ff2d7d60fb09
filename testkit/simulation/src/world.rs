//! One run: producers, relay processes, faults, an operator; then peace, and the journal for the checker.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use postroom_admin::view::ReplayKind;
use postroom_admin::{Inspect as _, Operate as _, Selection, Verify as _, replay_at_once};
use postroom_core::{Actor, Clock, DeliveryState, Event, Filter, OnDead, OnFailure, Outbox, RouteSpec, StartFrom};
use postroom_memory::{MemoryOptions, MemoryStore};
use postroom_testing::TokioClock;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::checker::{self, Committed, Journal, RouteJournal};
use crate::consumer::{Consumer, Manner};
use crate::destination::Destination;
use crate::faulty::Weather;
use crate::plan::{Fault, Plan};
use crate::supervisor::Order;
use crate::{Control, Report};

/// The routes; the second wants no poison.
const ROUTES: [&str; 2] = ["all", "orders"];
/// How long everything may take to come to an end once the faults are over.
const PEACE_MAX: Duration = Duration::from_mins(10);

/// What the journal needs of the producer and the operator.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) committed: Mutex<Vec<Committed>>,
    pub(super) rolled_back: Mutex<HashSet<String>>,
    pub(super) touched: Mutex<HashSet<(String, String)>>,
    /// Faults that may each cost `in_flight_max` duplicates.
    pub(super) costly: AtomicUsize,
}

/// Where one route goes.
pub(super) struct Line {
    pub(super) definition: RouteSpec,
    pub(super) destination: Arc<Destination>,
    pub(super) consumer: Consumer,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) control: Control,
    pub(super) seed: u64,
    pub(super) store: MemoryStore,
    pub(super) clock: TokioClock,
    pub(super) weather: Vec<Arc<Weather>>,
    pub(super) roads: Vec<Line>,
    pub(super) unleased: Arc<AtomicU64>,
    pub(super) unfenced: Arc<AtomicU64>,
    pub(super) handed_out: Arc<AtomicU64>,
    pub(super) notes: Notes,
}

pub(super) async fn run(seed: u64, control: Control) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut plan = Plan::new(&mut rng);
    if control == Control::RetryLetsTheKeyPass {
        plan.on_failure = OnFailure::Skip;
    }
    let clock = TokioClock::new();
    let mut options = MemoryOptions::default();
    (options.lanes, options.clock) = (plan.lanes, Arc::new(clock.clone()));
    let manner = if control == Control::AcceptAfterEffect { Manner::AcceptAfterEffect } else { Manner::Together };
    let roads: Vec<Line> = ROUTES
        .into_iter()
        .take(plan.routes)
        .map(|name| {
            let consumer = Consumer { database: MemoryStore::new(), manner };
            let filter = if name == "all" { Filter::default() } else { Filter::types(["order.*"]).expect("a pattern") };
            let definition = RouteSpec {
                filter,
                start: StartFrom::Beginning,
                on_failure: plan.on_failure,
                on_dead: plan.on_dead,
                ..RouteSpec::new(name)
            };
            Line { definition, destination: Destination::new(rng.u64(..), consumer.clone()), consumer }
        })
        .collect();
    let world = Arc::new(World {
        control,
        seed,
        store: MemoryStore::with(options),
        clock,
        weather: (0..plan.relays).map(|_| Weather::new(rng.u64(..))).collect(),
        roads,
        unleased: Arc::default(),
        unfenced: Arc::default(),
        handed_out: Arc::default(),
        notes: Notes::default(),
        plan,
    });
    let routes: Vec<RouteSpec> = world.roads.iter().map(|road| road.definition.clone()).collect();
    world.store.register(&routes).await.expect("new routes can be registered");

    let mut orders = Vec::new();
    for relay in 0..world.plan.relays {
        let (order, inbox) = mpsc::unbounded_channel();
        tokio::spawn(world.clone().supervise(relay, inbox));
        orders.push(order);
    }
    let producer = tokio::spawn(world.clone().produce(rng.fork()));
    world.misbehave(&orders).await;
    producer.await.expect("the producer ends");
    let finished = world.make_peace().await;
    // What is still on the wire to the consumer ends by itself.
    sleep(Duration::from_secs(5)).await;
    let journal = world.journal(finished).await;
    let mut digest = DefaultHasher::new();
    let arrivals = || journal.routes.iter().flat_map(|route| &route.arrivals);
    arrivals().for_each(|arrival| arrival.id.hash(&mut digest));
    Report {
        seed,
        violations: checker::violations(&journal),
        committed: world.notes.committed.lock().expect("never poisoned").len(),
        arrivals: arrivals().count(),
        digest: digest.finish(),
        faults: world.plan.faults.iter().map(|(at, fault)| format!("{:.1}s {fault:?}", at.as_secs_f64())).collect(),
    }
}

impl World {
    /// Appends events, some together, some held open, some rolled back, some for later, some without a key. Bad ones come
    /// alone, and now and then in clusters of as many keys.
    async fn produce(self: Arc<Self>, mut rng: fastrand::Rng) {
        let (mut number, mut cluster) = (0, 0);
        while number < self.plan.events {
            sleep(Duration::from_millis(rng.u64(0..45))).await;
            let mut tx = self.store.begin();
            let mut batch = Vec::new();
            for _ in 0..*[1, 1, 1, 4].get(rng.usize(0..4)).unwrap_or(&1) {
                number += 1;
                let event_type = match rng.u8(0..40) {
                    _ if cluster > 0 => "poison.transient",
                    0 => "poison.permanent",
                    1 => "poison.transient",
                    2 => {
                        cluster = rng.u64(10..40);
                        "poison.transient"
                    }
                    _ => "order.placed",
                };
                let mut event = Event::new(event_type).id(format!("e{number:04}"));
                if cluster > 0 {
                    cluster -= 1;
                    event = event.key(format!("bad{number}"));
                } else if rng.u8(0..10) > 0 {
                    event = event.key(format!("k{}", rng.u64(0..self.plan.keys)));
                }
                let delayed = rng.u8(0..20) == 0;
                if delayed {
                    let wait = SignedDuration::from_millis(rng.i64(10..2000));
                    event = event.available_at(self.clock.now().checked_add(wait).expect("a time of this century"));
                }
                let key = event.key.clone().filter(|_| !delayed);
                batch.push(Committed { id: event.id.clone(), key, event_type: event_type.to_owned() });
                Outbox::append(&self.store, &mut tx, &event).await.expect("memory appends").wake();
            }
            if rng.u8(0..6) == 0 {
                self.notes.rolled_back.lock().expect("never poisoned").extend(batch.into_iter().map(|c| c.id));
                tx.rollback();
            } else {
                tx.commit();
                self.notes.committed.lock().expect("never poisoned").extend(batch);
            }
        }
    }

    /// Makes happen what the plan says, when it says.
    async fn misbehave(self: &Arc<Self>, orders: &[mpsc::UnboundedSender<Order>]) {
        let start = Instant::now();
        let mut costly = 0;
        for (at, fault) in &self.plan.faults {
            tokio::time::sleep_until(start + *at).await;
            let tell = |relay: usize, order| drop(orders[relay].send(order));
            match *fault {
                Fault::Crash { relay, down_for } => tell(relay, Order::Kill { down_for }),
                Fault::CrashAt { relay, step, times, down_for } => {
                    tell(relay, Order::Arm { step, times, down_for });
                }
                Fault::Freeze { relay, lasts } => {
                    costly += 1;
                    tell(relay, Order::Freeze { lasts });
                }
                Fault::Restart { relay, down_for } => tell(relay, Order::Restart { down_for }),
                Fault::Database { relay, before, after, slow, lasts } => {
                    let hit = relay.map_or(0..self.plan.relays, |relay| relay..relay + 1);
                    // Each of them may lose its lease over it.
                    costly += hit.len();
                    let set = move |world: &Self, values: [u64; 3]| {
                        let [before, after, slow] = values;
                        hit.clone().for_each(|relay| world.weather[relay].set(before, after, slow));
                    };
                    set(self, [before, after, slow]);
                    self.later(lasts, move |world| set(world, [0; 3]));
                }
                Fault::Outage { route, lasts } => {
                    self.roads[route].destination.mood.down.store(1000, Ordering::Relaxed);
                    self.later(lasts, move |world| {
                        world.roads[route].destination.mood.down.store(0, Ordering::Relaxed);
                    });
                }
                Fault::Trouble { route, transient, ack_lost, slow, stuck, lasts } => {
                    let mood = move |world: &Self, values: [u64; 4]| {
                        let mood = &world.roads[route].destination.mood;
                        let knobs = [&mood.transient, &mood.ack_lost, &mood.slow, &mood.stuck];
                        knobs.iter().zip(values).for_each(|(knob, value)| knob.store(value, Ordering::Relaxed));
                    };
                    mood(self, [transient, ack_lost, slow, stuck]);
                    self.later(lasts, move |world| mood(world, [0; 4]));
                }
                Fault::ClockJump { seconds } => {
                    self.clock.jump_wall(SignedDuration::from_secs(seconds));
                }
                Fault::Pause { route, lasts } => {
                    self.store.pause(ROUTES[route], &operator()).await.expect("the route is registered");
                    let world = self.clone();
                    tokio::spawn(async move {
                        sleep(lasts).await;
                        world.store.resume(ROUTES[route], &operator()).await.expect("the route is registered");
                    });
                }
                Fault::ReplayDead => self.replay_dead().await,
                Fault::Unblock { route, skip } => self.unblock(ROUTES[route], skip).await,
            }
        }
        self.notes.costly.fetch_add(costly, Ordering::Relaxed);
    }

    fn later(self: &Arc<Self>, after: Duration, then: impl FnOnce(&World) + Send + 'static) {
        let world = self.clone();
        tokio::spawn(async move {
            sleep(after).await;
            then(&world);
        });
    }

    async fn replay_dead(&self) {
        let dead = self.store.dead(&Selection::default(), 0, usize::MAX).await.expect("memory lists");
        self.touch(dead.into_iter().map(|row| (row.route, row.id)));
        let replayed = replay_at_once(&self.store, ReplayKind::Dead, &Selection::default(), &operator()).await;
        replayed.expect("memory replays");
    }

    async fn unblock(&self, route: &str, skip: bool) {
        for blocked in self.store.blocked_keys(Some(route), None, usize::MAX).await.expect("memory lists") {
            self.touch([(route.to_owned(), blocked.head_id)]);
            // The key may have gone on by itself meanwhile.
            if skip {
                let skipped = self.store.skip_head(route, &blocked.key, &operator()).await;
                self.touch(skipped.map(|id| (route.to_owned(), id)));
            } else {
                let _ = self.store.unblock(route, &blocked.key, &operator()).await;
            }
        }
    }

    fn touch(&self, ids: impl IntoIterator<Item = (String, String)>) {
        self.notes.touched.lock().expect("never poisoned").extend(ids);
    }

    /// Ends all faults and waits until everything has come to an end; says whether it did.
    async fn make_peace(&self) -> bool {
        // Every fault that lasts is over by then.
        sleep(Duration::from_secs(10)).await;
        self.weather.iter().for_each(|weather| weather.set(0, 0, 0));
        for road in &self.roads {
            road.destination.heal();
            self.store.resume(&road.definition.name, &operator()).await.expect("the route is registered");
        }
        let start = Instant::now();
        let mut calm = 0;
        while start.elapsed() < PEACE_MAX {
            sleep(Duration::from_millis(200)).await;
            if self.plan.on_dead == OnDead::Hold {
                for blocked in self.store.blocked_keys(None, None, usize::MAX).await.expect("memory lists") {
                    if blocked.head_state == DeliveryState::Dead {
                        self.touch([(blocked.route.clone(), blocked.head_id)]);
                        let _ = self.store.skip_head(&blocked.route, &blocked.key, &operator()).await;
                    }
                }
            }
            let verified = self.store.verify().await.expect("memory verifies");
            let dead = self.store.dead(&Selection::default(), 0, usize::MAX).await.expect("memory lists").len() as u64;
            let open: u64 = verified.iter().map(|row| row.unsettled + row.open).sum();
            let status = self.store.routes().await.expect("memory lists");
            let due: u64 = status.iter().filter_map(|route| route.status.due).sum();
            calm = if open == dead && due == 0 { calm + 1 } else { 0 };
            if calm > 5 {
                return true;
            }
        }
        false
    }

    async fn journal(&self, finished: bool) -> Journal {
        let committed = self.notes.committed.lock().expect("never poisoned").clone();
        let mut timelines = HashMap::new();
        for event in &committed {
            if let Some(timeline) = self.store.event(&event.id, false).await.expect("memory shows") {
                timelines.insert(event.id.clone(), timeline);
            }
        }
        let dead = self.store.dead(&Selection::default(), 0, usize::MAX).await.expect("memory lists");
        let touched = self.notes.touched.lock().expect("never poisoned").clone();
        let route = |road: &Line, name: &'static str| {
            let filter = &road.definition.filter;
            let (wanted, unwanted): (Vec<Committed>, Vec<Committed>) =
                committed.iter().cloned().partition(|event| filter.matches_parts(&event.event_type, None, None));
            let dead = dead.iter().filter(|row| row.route == name).map(|row| row.id.clone());
            let touched = touched.iter().filter(|(route, _)| route == name).map(|(_, id)| id.clone());
            RouteJournal {
                name,
                committed: wanted,
                unwanted: unwanted.into_iter().map(|event| event.id).collect(),
                rolled_back: self.notes.rolled_back.lock().expect("never poisoned").clone(),
                arrivals: road.destination.arrivals.lock().expect("never poisoned").clone(),
                said: road.destination.said.lock().expect("never poisoned").clone(),
                timelines: timelines.clone(),
                touched: touched.collect(),
                dead: dead.collect(),
                attempts: self.plan.attempts,
                effects: road.consumer.effects(),
            }
        };
        let verified = self.store.verify().await.expect("memory verifies");
        Journal {
            routes: self.roads.iter().zip(ROUTES).map(|(road, name)| route(road, name)).collect(),
            duplicates_max: self.notes.costly.load(Ordering::Relaxed) * self.plan.in_flight_max,
            unleased: self.unleased.load(Ordering::Relaxed),
            unfenced: self.unfenced.load(Ordering::Relaxed),
            handed_out: self.handed_out.load(Ordering::Relaxed),
            differences: verified.into_iter().flat_map(|row| row.differences).collect(),
            finished,
        }
    }
}

fn operator() -> Actor {
    Actor { name: "operator".to_owned(), reason: None }
}
