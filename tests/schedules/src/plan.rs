//! What a seed decides before a run begins.

use std::time::Duration;

use postroom_core::OnFailure;

use crate::scenes::{RETRY, Scene};

/// The shape of one run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) lanes: u16,
    pub(crate) relays: usize,
    pub(crate) keys: u64,
    /// Most deliveries that one take brings.
    pub(crate) take_rows: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) attempts: u32,
    pub(crate) on_failure: OnFailure,
    pub(crate) steps: usize,
    /// Most events that producers append.
    pub(crate) events: usize,
    /// How many of ten thousand answers are no, of each kind.
    pub(crate) transient: u32,
    pub(crate) permanent: u32,
    pub(crate) unavailable: u32,
    pub(crate) lost: u32,
    /// How often each kind of step comes.
    pub(crate) weights: Weights,
    pub(crate) lease: Duration,
    /// The first and the longest pause before another try.
    pub(crate) retry: (Duration, Duration),
    /// Whether many bad events come at once in the end.
    pub(crate) crowd: bool,
    /// What is played before the steps.
    pub(crate) scene: Option<Scene>,
}

/// How often each kind of step comes, beside the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    pub(crate) statement: u32,
    pub(crate) answer: u32,
    pub(crate) produce: u32,
    pub(crate) tick: u32,
    pub(crate) segments: u32,
    pub(crate) pause: u32,
    pub(crate) cut: u32,
    pub(crate) crash: u32,
    pub(crate) restart: u32,
    pub(crate) numbers: u32,
    pub(crate) prune: u32,
    pub(crate) look: u32,
    pub(crate) freeze: u32,
}

impl Plan {
    pub(crate) fn new(rng: &mut fastrand::Rng) -> Self {
        let pick = |rng: &mut fastrand::Rng, of: &[u32]| of[rng.usize(0..of.len())];
        // A fault that every run has is a fault that no run is without: each is left out of some.
        let weights = Weights {
            statement: pick(rng, &[300, 400, 600]),
            answer: pick(rng, &[60, 150, 200]),
            produce: pick(rng, &[60, 150, 250]),
            tick: pick(rng, &[100, 150, 200]),
            segments: pick(rng, &[0, 0, 5, 20]),
            pause: pick(rng, &[0, 0, 5, 15]),
            cut: pick(rng, &[0, 0, 4]),
            crash: pick(rng, &[0, 0, 4]),
            restart: pick(rng, &[0, 0, 4, 8]),
            numbers: pick(rng, &[0, 0, 0, 5]),
            prune: pick(rng, &[0, 0, 5]),
            look: pick(rng, &[0, 5]),
            freeze: pick(rng, &[0, 0, 3]),
        };
        let (no, crowd) = (rng.bool(), rng.u8(0..5) == 0);
        Self {
            lanes: u16::try_from(pick(rng, &[1, 1, 2, 3])).unwrap_or(1),
            relays: pick(rng, &[1, 1, 1, 2, 2, 3]) as usize,
            keys: u64::from(pick(rng, &[1, 2, 3, 5])),
            take_rows: if crowd { 2 } else { pick(rng, &[1, 2, 3, 5, 20]) as usize },
            // With few slots the retries of a crowd are due faster than they can be tried.
            in_flight_max: if crowd { 2 } else { pick(rng, &[2, 4, 8, 16]) as usize },
            // A crowd must not die of its tries before the others are through.
            attempts: if crowd { 1_000 } else { pick(rng, &[2, 3, 5]) },
            on_failure: OnFailure::Block,
            steps: 400,
            events: 60,
            transient: if no { pick(rng, &[500, 2000, 4000]) } else { 300 },
            permanent: pick(rng, &[0, 100, 500]),
            unavailable: pick(rng, &[0, 0, 200]),
            lost: pick(rng, &[0, 100, 500]),
            weights,
            lease: Duration::from_mins(10),
            retry: (Duration::from_millis(20), Duration::from_millis(200)),
            crowd,
            scene: None,
        }
    }

    /// Whether a fault may leave claims of rows behind that nobody has tried.
    pub(crate) fn leaves_claims(&self) -> bool {
        self.weights.cut + self.weights.crash + self.weights.freeze > 0
    }

    /// Without the faults after which rows that are locked come back when the server or the machine says so, by a clock that no
    /// schedule moves: transactions that stand idle, and pauses after one that could not be committed.
    pub(crate) fn by_the_servers_clock(mut self) -> Self {
        (self.weights.cut, self.weights.freeze) = (0, 0);
        self
    }

    /// The plan of a run that plays a scene, without faults beside it.
    pub(crate) fn playing(mut self, scene: Option<Scene>) -> Self {
        let Some(scene) = scene else { return self };
        self.weights =
            Weights { cut: 0, crash: 0, freeze: 0, restart: 0, pause: 0, prune: 0, numbers: 0, ..self.weights };
        (self.relays, self.take_rows, self.in_flight_max, self.attempts) = (1, 20, 16, 9);
        (self.crowd, self.steps, self.scene) = (false, 20, Some(scene));
        match scene {
            Scene::BlockerLeaves | Scene::Newcomer => self.lanes = 1,
            Scene::TurnOfThePartitions | Scene::TurnAndJoin => self.lanes = 2,
            Scene::RetriesAreDue => (self.take_rows, self.retry) = (2, (RETRY, RETRY)),
            Scene::Restarts | Scene::StandsStill => self.in_flight_max = 2,
            Scene::SetBack => {}
        }
        self
    }
}
