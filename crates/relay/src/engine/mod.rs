//! One route on one store: takes, delivers, settles.
//!
//! A single task with plain state. Around it run at most one take, one settle, one renewal and one hand-over at a time,
//! so that a slow database or a slow destination never stops outcomes from being recorded. What comes in is handled in
//! [`intake`] (deliveries, ownership) and [`outcome`] (reports, settles); what goes out is decided in [`pump`].

mod bucket;
mod intake;
mod keys;
mod outcome;
mod pace;
mod probes;
mod pump;
mod ready;
mod settler;
mod suspects;
mod timing;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use postroom_core::{
    Breaker, Capabilities, Clock, LaneTerm, Lease, OnDead, Outcome, RelayIdentity, RetryPolicy, RouteDefinition,
    RouteHealth, Source, Standing, Store, StoreError, StoreErrorKind, Take, Transport,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::bucket::Bucket;
use self::keys::{Held, Keys};
use self::pace::Pace;
use self::probes::Probed;
use self::ready::Ready;
use self::settler::{Batch, Settler};
use self::suspects::Suspects;
use self::timing::Timing;
use crate::doubts::Watch;
use crate::observer::{Observer, RouteObserver};
use crate::options::{RelayOptions, RouteRun};
use crate::slots::Share;

/// How long a stop waits for the store to take the lanes back.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// An engine goes round at least this often, so that who watches can tell one that waits from one that is stuck.
const TURN_MAX: Duration = Duration::from_secs(1);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Running<T> = Option<Boxed<T>>;

/// What an engine shares with its relay.
pub(crate) struct Surroundings {
    pub(crate) identity: RelayIdentity,
    pub(crate) options: Arc<RelayOptions>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) share: Share,
    /// What one fault may repeat of this route.
    pub(crate) bound: usize,
    pub(crate) doubts: Watch,
    pub(crate) rng: fastrand::Rng,
}

/// A delivery in the transport's hands.
struct Flight {
    held: Held,
    since: Duration,
    // How often the breaker had opened when it was sent.
    epoch: u64,
    line: Line,
}

/// As what a delivery was handed over; bounds how many of its like are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// As one of which nothing bad is known.
    Plain,
    /// As one that may well fail: on its way again, or from the old end while many are refused.
    Doubtful,
    /// To find out whether a destination that refuses everything still does.
    Slow,
}

/// How far the engine has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// No new deliveries; what is on its way may end until then.
    Stopping {
        until: Duration,
    },
}

/// What is running beside the engine's own task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ongoing {
    take: bool,
    settle: bool,
    renew: bool,
    hand_over: bool,
}

pub(crate) struct Engine {
    store_name: String,
    definition: RouteDefinition,
    store: Arc<dyn Store>,
    source: Arc<dyn Source>,
    transport: Arc<dyn Transport>,
    capabilities: Capabilities,
    retry: RetryPolicy,
    options: Arc<RelayOptions>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn RouteObserver>,
    rng: fastrand::Rng,

    phase: Phase,
    timing: Timing,
    share: Share,
    keys: Keys,
    ready: Ready,
    flights: HashMap<u64, Flight>,
    settler: Settler,
    breaker: Breaker,
    pace: Pace,
    suspects: Suspects,
    probed: Probed,
    bucket: Option<Bucket>,
    report: mpsc::UnboundedSender<(u64, Outcome)>,

    standing: Standing,
    // Whether it was said that another relay holds the route.
    stands_by: bool,
    // Why the store reads no further; only a take knows.
    halted: Option<String>,
    // Which counts differ; only a renewal knows.
    differs: Option<String>,
    health: RouteHealth,
    // The last failure that opened the breaker, and the last refusal.
    outage: String,
    refusal: String,
    // How often the breaker has opened; how many of `flights` were sent since.
    epoch: u64,
    current_flights: usize,
    // How many of `flights` were sent as doubtful, and as slow ones.
    doubtful_flights: usize,
    slow_flights: usize,
    // Whose turn it is among what is ready.
    turn: usize,
    // When the latest of those that got through was sent.
    through_sent: Option<Duration>,
    // Outages so far; a failed probe belongs to the one going on.
    outages: u64,
    // Since when takes fail, and why.
    trouble: Option<(Duration, String)>,
    // Lanes may be lost that only a take tells of.
    doubts: Watch,
    // Slots of lost lanes; they come back when there is no doubt about the others.
    owed: usize,
    // Lanes that were lost while deliveries of theirs were on their way: their outcomes are void.
    void: HashSet<LaneTerm>,
    // Lanes that were lost while a take was running: what it brings of them is no longer ours.
    lost_meanwhile: Vec<LaneTerm>,
    held_bytes: usize,
    next_order: u64,
    next_ticket: u64,
    takes: u64,
    take_running: bool,
    /// Whether the last take left something behind.
    more: bool,
    // Settles that ended, and how many had when the take began.
    settles: u64,
    settles_before_take: u64,
    // The last take found nothing to wait for, and nothing has happened since.
    exhausted: bool,
    // Somebody found no slot; ours may be the ones that wait for a settle.
    pressed: bool,
    starved: bool,
    // With a transport that pipelines keys: an outage must be over on the wire before anything is sent again.
    wire_doubtful: bool,
    // How often that was so.
    round: u64,
}

/// What a finished take brings, and whether other relays have nothing left either (asked only when draining).
type Taken = Result<(Take, bool), StoreError>;

/// Waits for the store, opens the route and serves it until `stop`.
pub(crate) async fn serve(run: RouteRun, around: Surroundings, stop: CancellationToken) -> Result<(), StoreError> {
    let store = tokio::select! {
        biased;
        store = run.store => store,
        () = stop.cancelled() => return Ok(()),
    };
    let mut pause = Duration::from_millis(100);
    let source = loop {
        let opened = tokio::select! {
            biased;
            opened = store.source(&around.identity, &run.definition) => opened,
            () = stop.cancelled() => return Ok(()),
        };
        match opened {
            Ok(source) => break source,
            Err(error) if error.is_transient() => {
                tracing::warn!(store = run.store_name, route = run.definition.name, %error, "route cannot be opened yet");
                tokio::select! {
                    biased;
                    () = around.clock.sleep(pause) => {}
                    () = stop.cancelled() => return Ok(()),
                }
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            Err(error) => return Err(error),
        }
    };
    source.bound(around.bound);
    let mut capabilities = run.transport.capabilities();
    // What is behind a dead event that holds its key must not be on its way already.
    capabilities.pipelines_key &= run.definition.on_dead == OnDead::Continue;
    let ready = Ready::new(capabilities.pipelines_key);
    let (report, reports) = mpsc::unbounded_channel();
    let observer = around.observer.route(&run.store_name, &run.definition.name);
    let engine = Engine {
        store_name: run.store_name,
        definition: run.definition,
        store,
        source,
        capabilities,
        transport: run.transport,
        retry: run.retry,
        phase: Phase::Serving,
        timing: Timing::new(&around.options, run.poll),
        settler: Settler::new(around.options.in_flight_max / 2),
        breaker: Breaker::new(run.breaker),
        bucket: run.rate.map(Bucket::new),
        options: around.options,
        clock: around.clock,
        observer,
        rng: around.rng,
        share: around.share,
        keys: Keys::default(),
        ready,
        flights: HashMap::default(),
        pace: Pace::default(),
        suspects: Suspects::default(),
        probed: Probed::default(),
        report,
        standing: Standing::default(),
        stands_by: false,
        halted: None,
        differs: None,
        health: RouteHealth::running(),
        outage: String::new(),
        refusal: String::new(),
        epoch: 0,
        current_flights: 0,
        doubtful_flights: 0,
        slow_flights: 0,
        turn: 0,
        through_sent: None,
        outages: 0,
        trouble: None,
        doubts: around.doubts,
        owed: 0,
        void: HashSet::new(),
        lost_meanwhile: Vec::new(),
        held_bytes: 0,
        next_order: 0,
        next_ticket: 0,
        takes: 0,
        take_running: false,
        more: false,
        settles: 0,
        settles_before_take: 0,
        exhausted: false,
        pressed: false,
        starved: false,
        wire_doubtful: false,
        round: 0,
    };
    engine.run(reports, stop).await;
    Ok(())
}

impl Engine {
    async fn run(mut self, mut reports: mpsc::UnboundedReceiver<(u64, Outcome)>, stop: CancellationToken) {
        let mut taking: Running<Taken> = None;
        let mut settling: Running<(Batch, Result<Standing, StoreError>)> = None;
        let mut renewing: Running<(Duration, Result<Lease, StoreError>)> = None;
        let mut handing: Running<()> = None;
        let mut ear = self.source.ear();
        let mut arrived = Vec::with_capacity(1024);

        loop {
            let now = self.clock.elapsed();
            if renewing.is_none() && self.timing.renew_is_due(now, self.clock.now()) {
                renewing = Some(self.start_renew(now));
            }
            if taking.is_none() && self.wants_more(now) {
                taking = Some(self.start_take());
            }
            if handing.is_none()
                && let Some(batch) = self.pump(now)
            {
                let transport = self.transport.clone();
                handing = Some(Box::pin(async move { transport.deliver(batch).await }));
            }
            if settling.is_none()
                && let Some(batch) = self.settler.due(now, self.urgency())
            {
                self.pressed = false;
                let (source, clock, observer) = (self.source.clone(), self.clock.clone(), self.observer.clone());
                settling = Some(Box::pin(async move {
                    let result = source.settle(&batch.settlements).await;
                    observer.wrote(batch.settlements.len(), clock.elapsed().saturating_sub(now));
                    (batch, result)
                }));
            }
            let running = Ongoing {
                take: taking.is_some(),
                settle: settling.is_some(),
                renew: renewing.is_some(),
                hand_over: handing.is_some(),
            };
            if self.is_done(now, running == Ongoing::default()) {
                break;
            }
            self.observer.turned();
            self.observer.in_flight(self.flights.len());
            let pause = self.next_deadline(now, running).saturating_sub(now).min(TURN_MAX);
            let serving = self.phase == Phase::Serving;
            let (waiting, starved) = (taking.is_none() && serving, self.starved);

            tokio::select! {
                biased;
                _ = reports.recv_many(&mut arrived, 1024) => {
                    let now = self.clock.elapsed();
                    for (ticket, outcome) in arrived.drain(..) {
                        self.outcome(now, ticket, outcome);
                    }
                    self.tell_health(now);
                }
                (batch, result) = finished(&mut settling) => self.settled(batch, result),
                () = finished(&mut handing) => {}
                taken = finished(&mut taking) => self.taken(taken),
                (since, lease) = finished(&mut renewing) => self.renewed(since, lease),
                () = stop.cancelled(), if serving => self.stop(),
                () = self.share.wanted.heard() => self.pressed = true,
                () = self.share.freed.heard(), if starved => self.starved = false,
                () = ear.heard(), if waiting => self.timing.look_now(),
                () = self.clock.sleep(pause) => {}
            }
        }
        // What still runs may hold what the release needs.
        drop((taking, settling, renewing, handing));
        self.leave().await;
    }

    fn start_renew(&mut self, now: Duration) -> Boxed<(Duration, Result<Lease, StoreError>)> {
        self.timing.renewing(now, self.clock.now());
        let (source, health) = (self.source.clone(), self.health.clone());
        Box::pin(async move { (now, source.renew(&health).await) })
    }

    fn start_take(&mut self) -> Boxed<Taken> {
        self.takes += 1;
        self.doubts.look();
        self.take_running = true;
        self.settles_before_take = self.settles;
        let (source, budget) = (self.source.clone(), self.options.take);
        let (clock, observer) = (self.clock.clone(), self.observer.clone());
        // What is in our hands comes to its end first, and then there is another look.
        let nothing_held = self.flights.is_empty() && self.ready.is_empty() && self.settler.is_empty();
        let asks = self.options.drain && nothing_held;
        let elsewhere = asks.then(|| (self.store.desk(), self.definition.name.clone()));
        Box::pin(async move {
            let began = clock.elapsed();
            let take = source.take(budget).await?;
            observer.read(take.deliveries.len(), clock.elapsed().saturating_sub(began));
            let mut others_idle = true;
            if take.deliveries.is_empty()
                && !take.more
                && !take.retrying
                && let Some((desk, name)) = elsewhere
            {
                // Other relays may own lanes of the route: a drain is done when nothing is left in those either.
                let routes = desk.routes().await?;
                let mine = routes.iter().find(|r| r.status.route == name);
                others_idle = mine.is_none_or(|r| r.status.due == 0 && r.status.retrying == 0);
            }
            Ok((take, others_idle))
        })
    }

    /// Whether the run is over: everything came to its end, or the grace did.
    fn is_done(&mut self, now: Duration, quiet: bool) -> bool {
        match self.phase {
            Phase::Stopping { until } => (quiet && self.flights.is_empty() && self.settler.is_empty()) || now >= until,
            Phase::Serving => {
                let idle = self.exhausted
                    && self.flights.is_empty()
                    && self.settler.is_empty()
                    && (self.standing.paused || (self.ready.is_empty() && self.keys.waiting() == 0));
                let drained = self.options.drain && idle && quiet;
                if drained {
                    self.stop();
                }
                drained
            }
        }
    }

    /// Gives the lanes up and ends the transport.
    async fn leave(self) {
        let unfinished = self.flights.len();
        if unfinished > 0 {
            tracing::warn!(
                store = self.store_name,
                route = self.definition.name,
                unfinished,
                "the grace is over; these deliveries will be repeated"
            );
        }
        for pause in [Some(Duration::from_millis(50)), Some(Duration::from_millis(500)), None] {
            let released = tokio::select! {
                biased;
                released = self.source.release() => released,
                () = self.clock.sleep(RELEASE_MAX) => Err(StoreError::new(
                    StoreErrorKind::Unreachable,
                    "release",
                    "the store does not answer",
                )),
            };
            match released {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(store = self.store_name, route = self.definition.name, %error, "lanes were not released");
                    if let Some(pause) = pause {
                        self.clock.sleep(pause).await;
                    }
                }
            }
        }
        self.transport.close().await;
    }
}

/// Resolves with the result of what is running; never while nothing is.
async fn finished<T>(running: &mut Running<T>) -> T {
    match running {
        Some(future) => {
            let result = future.await;
            *running = None;
            result
        }
        None => std::future::pending().await,
    }
}
