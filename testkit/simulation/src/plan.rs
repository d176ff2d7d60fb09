//! What happens in one simulated run: everything follows from the seed.

use std::time::Duration;

use postroom_core::{OnDead, OnFailure};

use crate::process::Step;

/// One thing that goes wrong, or that an operator does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    /// `kill -9`, and a new start after a while.
    Crash { relay: usize, down_for: Duration },
    /// Dies at a named step, and starts again after a while.
    CrashAt { relay: usize, step: Step, times: u32, down_for: Duration },
    /// `SIGSTOP`, then `SIGCONT`.
    Freeze { relay: usize, lasts: Duration },
    /// A graceful stop and a new start.
    Restart { relay: usize, down_for: Duration },
    /// The database refuses, loses answers or is slow; for one relay, or for all.
    Database { relay: Option<usize>, before: u64, after: u64, slow: u64, lasts: Duration },
    /// The destination is down.
    Outage { route: usize, lasts: Duration },
    /// The destination fails some, loses acknowledgements, is slow, or never answers some.
    Trouble { route: usize, transient: u64, ack_lost: u64, slow: u64, stuck: u64, lasts: Duration },
    /// The database's wall clock jumps.
    ClockJump { seconds: i64 },
    /// An operator pauses and resumes.
    Pause { route: usize, lasts: Duration },
    /// An operator replays every dead letter.
    ReplayDead,
    /// An operator lets a blocked key go on, or gives its head up.
    Unblock { route: usize, skip: bool },
}

/// One run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) lanes: u32,
    pub(super) relays: usize,
    pub(super) routes: usize,
    pub(super) in_flight_max: usize,
    pub(super) take_rows: usize,
    pub(super) lease: Duration,
    pub(super) keys: u64,
    pub(super) events: u64,
    pub(super) on_failure: OnFailure,
    pub(super) on_dead: OnDead,
    pub(super) attempts: u32,
    pub(super) faults: Vec<(Duration, Fault)>,
}

impl Plan {
    pub(super) fn new(rng: &mut fastrand::Rng) -> Self {
        let relays = rng.usize(1..=3);
        let routes = rng.usize(1..=2);
        let lease = Duration::from_millis(rng.u64(800..4000));
        let events = rng.u64(30..160);
        let span = Duration::from_millis(events * 25);
        let mut faults: Vec<(Duration, Fault)> =
            (0..rng.usize(0..8)).map(|_| (span.mul_f64(rng.f64()), fault(rng, relays, routes, lease))).collect();
        faults.sort_by_key(|(at, _)| *at);
        Self {
            lanes: *[1, 1, 3, 4].get(rng.usize(0..4)).unwrap_or(&1),
            relays,
            routes,
            in_flight_max: rng.usize(2..12),
            take_rows: rng.usize(4..40),
            lease,
            keys: rng.u64(1..9),
            events,
            on_failure: OnFailure::Block,
            on_dead: if rng.u8(0..5) == 0 { OnDead::Hold } else { OnDead::Continue },
            attempts: rng.u32(2..5),
            faults,
        }
    }
}

fn fault(rng: &mut fastrand::Rng, relays: usize, routes: usize, lease: Duration) -> Fault {
    let (relay, route) = (rng.usize(0..relays), rng.usize(0..routes));
    let lasts = Duration::from_millis(rng.u64(50..3000));
    let down_for = Duration::from_millis(rng.u64(10..1500));
    match rng.u8(0..16) {
        0 | 1 => Fault::Crash { relay, down_for },
        2..=5 => {
            let step = Step::ALL[rng.usize(0..Step::ALL.len())];
            Fault::CrashAt { relay, step, times: rng.u32(1..6), down_for }
        }
        6 | 7 => Fault::Freeze { relay, lasts: lease.mul_f64(0.2 + 2.0 * rng.f64()) },
        8 => Fault::Restart { relay, down_for },
        9 => Fault::Database {
            relay: rng.bool().then_some(relay),
            before: rng.u64(0..400),
            after: rng.u64(0..400),
            slow: rng.u64(0..400),
            lasts,
        },
        10 => Fault::Outage { route, lasts },
        11 | 12 => Fault::Trouble {
            route,
            transient: rng.u64(0..400),
            ack_lost: rng.u64(0..200),
            slow: rng.u64(0..300),
            stuck: rng.u64(0..60),
            lasts,
        },
        13 => Fault::ClockJump { seconds: rng.i64(-30..60) },
        14 => Fault::Pause { route, lasts },
        _ if rng.bool() => Fault::ReplayDead,
        _ => Fault::Unblock { route, skip: rng.bool() },
    }
}
