//! One route on one store: takes, delivers, settles.
//!
//! A single task with plain state. Around it run at most one take, one settle, one renewal and one hand-over at a time,
//! so that a slow database or a slow destination never stops outcomes from being recorded. [`intake`] handles what
//! comes from the store, [`outcome`] what comes from the transport, [`pump`] decides what goes out, [`stop`] ends it.
//!
//! Each part of the state keeps its own invariants: [`ownership`] knows which lanes are ours, [`queue`] what waits and
//! in which order, [`window`] what is in flight, [`destination`] whether it may be sent more, [`settler`] what the
//! store must be told, [`drain`] whether anything is left, [`health`] what people are told.

mod bucket;
mod context;
mod destination;
mod drain;
mod health;
mod intake;
mod keys;
mod outcome;
mod ownership;
mod pace;
mod poison;
mod probes;
mod pump;
mod queue;
mod ready;
mod serve;
mod settler;
mod stop;
mod timing;
mod window;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use postroom_core::{Lease, Outcome, Ownership, Phase as BreakerPhase, RouteHealth, StoreError, Take};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::context::RouteContext;
use self::destination::Destination;
use self::drain::Drain;
use self::health::Health;
use self::ownership::LaneOwnership;
use self::queue::Queue;
pub(crate) use self::serve::{Surroundings, serve};
use self::settler::{Batch, Settler};
use self::timing::Timing;
use self::window::Window;

/// Longest time between two turns of an engine, so that observers can tell one that waits from one that is stuck.
const TURN_MAX: Duration = Duration::from_secs(1);

/// Longest time between two renewals while the destination is down: they bring an operator's wish to try now.
const DOWN_RENEW_PAUSE: Duration = Duration::from_secs(2);
/// Longest time between two renewals while something is delivered: they store the rate of the last seconds.
const BUSY_RENEW_PAUSE: Duration = Duration::from_secs(5);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Running<T> = Option<Boxed<T>>;

/// A take that ended, and whether other relays have nothing left either (asked only when draining).
type Taken = Result<(Take, bool), StoreError>;
/// A settle that ended, with what it was to settle.
type Settled = (Batch, Result<Ownership, StoreError>);
/// A renewal that ended, with when it began.
type Renewed = (Duration, Result<Lease, StoreError>);

/// The engine's phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// No new deliveries; what is on its way may end until then.
    Stopping {
        until: Duration,
    },
}

/// Calls that run beside the engine's own task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ongoing {
    take: bool,
    settle: bool,
    renew: bool,
    hand_over: bool,
}

/// The engine of one route.
pub(crate) struct Engine {
    route: RouteContext,
    rng: fastrand::Rng,
    phase: Phase,
    timing: Timing,
    ownership: LaneOwnership,
    queue: Queue,
    window: Window,
    destination: Destination,
    settler: Settler,
    drain: Drain,
    health: Health,
}

impl Engine {
    async fn run(mut self, mut reports: mpsc::UnboundedReceiver<(u64, Outcome)>, stop: CancellationToken) {
        let mut taking: Running<Taken> = None;
        let mut settling: Running<Settled> = None;
        let mut renewing: Running<Renewed> = None;
        let mut delivering: Running<()> = None;
        let mut notified = self.route.source.notified();
        let mut arrived = Vec::with_capacity(1024);

        loop {
            let now = self.route.elapsed();
            self.return_stalled(now);
            if renewing.is_none() && self.timing.renew_is_due(now, self.route.clock.now()) {
                renewing = Some(self.start_renew(now));
            }
            if taking.is_none() && self.wants_more(now) {
                taking = Some(self.start_take());
            }
            if delivering.is_none()
                && let Some(batch) = self.pump(now)
            {
                let transport = self.route.transport.clone();
                delivering = Some(Box::pin(async move { transport.deliver(batch).await }));
            }
            if settling.is_none()
                && let Some(batch) = self.settler.due(now, self.urgency())
            {
                settling = Some(self.start_settle(now, batch));
            }
            let running = Ongoing {
                take: taking.is_some(),
                settle: settling.is_some(),
                renew: renewing.is_some(),
                hand_over: delivering.is_some(),
            };
            if self.is_done(now, running == Ongoing::default()) {
                break;
            }
            self.route.observer.turned();
            self.route.observer.in_flight(self.window.in_flight());
            let pause = self.next_deadline(now, running).saturating_sub(now).min(TURN_MAX);
            let serving = self.phase == Phase::Serving;
            let waiting = taking.is_none() && serving;

            tokio::select! {
                biased;
                _ = reports.recv_many(&mut arrived, 1024) => {
                    let now = self.route.elapsed();
                    for (ticket, outcome) in arrived.drain(..) {
                        self.outcome(now, ticket, outcome);
                    }
                    self.tell_health(now);
                }
                (batch, result) = finished(&mut settling) => self.settled(batch, result),
                () = finished(&mut delivering) => {}
                taken = finished(&mut taking) => self.taken(taken),
                (since, lease) = finished(&mut renewing) => self.renewed(since, lease),
                () = stop.cancelled(), if serving => self.stop(),
                () = self.window.slots_changed() => {}
                () = notified.changed(), if waiting => self.timing.look_now(),
                () = self.route.clock.sleep(pause) => {}
            }
        }
        // What still runs may hold what the release needs.
        drop((taking, settling, renewing, delivering));
        self.leave().await;
    }

    fn start_renew(&mut self, now: Duration) -> Boxed<Renewed> {
        let pause = match self.destination.phase(now) {
            // An operator may wish to try.
            BreakerPhase::Open { .. } => DOWN_RENEW_PAUSE,
            _ if self.health.is_delivering(now) => BUSY_RENEW_PAUSE,
            _ => Duration::MAX,
        };
        self.timing.renewing(now, self.route.clock.now(), pause);
        let consumers = self.route.observer.consumers();
        let (source, health) = (self.route.source.clone(), RouteHealth { consumers, ..self.health.store(now) });
        Box::pin(async move { (now, source.renew(&health).await) })
    }

    fn start_settle(&mut self, now: Duration, batch: Batch) -> Boxed<Settled> {
        self.window.begin_settle();
        let source = self.route.source.clone();
        let (clock, observer) = (self.route.clock.clone(), self.route.observer.clone());
        Box::pin(async move {
            let result = source.settle(&batch.settlements).await;
            observer.wrote(batch.settlements.len(), clock.elapsed().saturating_sub(now));
            (batch, result)
        })
    }

    fn start_take(&mut self) -> Boxed<Taken> {
        self.ownership.begin_take();
        self.drain.begin_take();
        let (source, budget) = (self.route.source.clone(), self.route.options.take);
        let (clock, observer) = (self.route.clock.clone(), self.route.observer.clone());
        // What is in our hands comes to its end first, and then there is another look.
        let asks_others = self.drain.is_wanted() && self.holds_nothing();
        Box::pin(async move {
            let began = clock.elapsed();
            let take = source.take(budget).await?;
            observer.read(take.deliveries.len(), clock.elapsed().saturating_sub(began));
            // Other relays may own lanes of the route: a drain is done when nothing is left in those either.
            let found_nothing = take.deliveries.is_empty() && !take.more && !take.retrying;
            let others_idle = if asks_others && found_nothing { source.is_drained().await? } else { true };
            Ok((take, others_idle))
        })
    }
}

/// Waits for the result of what is running; for ever while nothing is.
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
