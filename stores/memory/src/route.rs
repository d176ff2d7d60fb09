//! A registered route: its definition, its lanes, and how fast it moves.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use postroom_core::{Pause, RelayIdentity, RouteHealth, RouteSpec, StartFrom, StoreError, StoreErrorKind, valid_name};

use crate::lane::Lane;
use crate::log::{Log, Row};
use crate::relay::{Relay, Serving};
use crate::state::State;

/// How long a relay that died is still shown.
const SILENT_MAX: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) definition: RouteSpec,
    pub(crate) registered_at: Timestamp,
    /// Who paused it.
    pub(crate) pause: Option<Pause>,
    /// When an operator last asked to try the destination now.
    pub(crate) probe_at: Option<Timestamp>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) pace: Pace,
    /// What it did, by minutes since 1970.
    pub(crate) minutes: BTreeMap<i64, Sums>,
}

/// Throughput of a route in a minute.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) delivered: u64,
    pub(crate) retried: u64,
    pub(crate) dead: u64,
}

impl Route {
    pub(crate) fn new(definition: RouteSpec, log: &Log, lanes: usize, now: Timestamp) -> Self {
        let start = match definition.start {
            StartFrom::Now => log.last(),
            StartFrom::Beginning => 0,
            // Everything before the first row of that time or later; rows that are yet to come are looked at one by one.
            StartFrom::At(time) => {
                let first = log.iter().find(|(_, row)| row.appended_at >= time);
                first.map_or(log.last(), |(number, _)| number - 1)
            }
        };
        let lane = |lane| {
            let base = if start == 0 { log.pruned(lane) } else { log.counted(lane, start) };
            Lane::starting_after(start, base)
        };
        let lanes = (0..lanes).map(lane).collect();
        Self {
            definition,
            registered_at: now,
            pause: None,
            probe_at: None,
            lanes,
            pace: Pace::default(),
            minutes: BTreeMap::new(),
        }
    }

    /// Whether the event of this row is to go to this route.
    pub(crate) fn wants(definition: &RouteSpec, row: &Row) -> bool {
        !Self::is_before(definition, row) && definition.filter.matches(&row.event)
    }

    /// Whether the row was appended before the time at which the route starts.
    pub(crate) fn is_before(definition: &RouteSpec, row: &Row) -> bool {
        matches!(definition.start, StartFrom::At(time) if row.appended_at < time)
    }
}

/// Deliveries of the last minute, by second.
#[derive(Debug, Default)]
pub(crate) struct Pace(VecDeque<(u64, u64)>);

/// How far back the pace looks, in seconds.
const PACE_SECONDS: u64 = 60;

impl Pace {
    pub(crate) fn add(&mut self, delivered: u64, elapsed: Duration) {
        let second = elapsed.as_secs();
        match self.0.back_mut() {
            Some((last, count)) if *last == second => *count += delivered,
            _ => self.0.push_back((second, delivered)),
        }
        while self.0.front().is_some_and(|(first, _)| first + PACE_SECONDS <= second) {
            self.0.pop_front();
        }
    }

    pub(crate) fn per_second(&self, elapsed: Duration) -> f64 {
        let recent = self.0.iter().filter(|(second, _)| second + PACE_SECONDS > elapsed.as_secs());
        recent.map(|(_, count)| count).sum::<u64>() as f64 / PACE_SECONDS as f64
    }
}

impl State {
    /// Registers the route if it is new; says whether it was.
    pub(crate) fn register(&mut self, definition: &RouteSpec, now: Timestamp) -> Result<bool, StoreError> {
        check_name(&definition.name)?;
        if self.routes.contains_key(&definition.name) {
            return Ok(false);
        }
        let route = Route::new(definition.clone(), &self.log, self.lanes, now);
        self.routes.insert(definition.name.clone(), route);
        Ok(true)
    }

    /// Opens a route for a relay: registers it, agrees on its definition with the relays that serve it, joins.
    pub(crate) fn join(
        &mut self,
        relay: &RelayIdentity,
        definition: &RouteSpec,
        now: Timestamp,
        elapsed: Duration,
    ) -> Result<(), StoreError> {
        let name = &definition.name;
        let differs = |other: &Relay| {
            other.identity.boot != relay.boot
                && other.is_alive(elapsed)
                && other.serves.get(name).is_some_and(|serving| !agree(&serving.definition, definition))
        };
        if let Some(other) = self.relays.values().find(|other| differs(other)) {
            let message = format!("relay {} serves route {name} with another definition", other.identity.name);
            return Err(StoreError::new(StoreErrorKind::Conflict, "open route", message)
                .hint("give both relays the same configuration, or stop the other one first"));
        }
        self.register(definition, now)?;
        if let Some(route) = self.routes.get_mut(name)
            && !agree(&route.definition, definition)
        {
            let start = route.definition.start;
            route.definition = RouteSpec { start, ..definition.clone() };
            self.record(now, &relay.name, "route.change", name, 0, None);
        }
        // A relay that comes back under its name replaces what a crash has left of it; others are shown for a while.
        self.relays.retain(|_, other| {
            let silent = elapsed.saturating_sub(other.alive_until);
            other.is_alive(elapsed) || (other.identity.name != relay.name && silent < SILENT_MAX)
        });
        let joined = self.relays.entry(relay.boot.clone()).or_insert_with(|| Relay {
            identity: relay.clone(),
            started_at: now,
            seen_at: now,
            alive_until: elapsed,
            serves: BTreeMap::new(),
        });
        joined.seen_at = now;
        joined.alive_until = joined.alive_until.max(elapsed + relay.lease);
        let definition = definition.clone();
        if let Some(serving) = joined.serves.get_mut(name) {
            serving.definition = definition;
        } else {
            let serving = Serving { definition, health: RouteHealth::running(), owned: Vec::new() };
            joined.serves.insert(name.clone(), serving);
        }
        Ok(())
    }
}

/// Whether a route may be called so.
pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    if valid_name(name) {
        return Ok(());
    }
    let message = format!("{name:?} cannot be the name of a route");
    Err(StoreError::new(StoreErrorKind::Invalid, "register", message)
        .hint("use lower-case letters, digits, `-`, `_` and `.`, at most 63"))
}

/// Whether two definitions of a route mean the same from now on; where it once started no longer matters.
fn agree(one: &RouteSpec, other: &RouteSpec) -> bool {
    *one == RouteSpec { start: one.start, ..other.clone() }
}
