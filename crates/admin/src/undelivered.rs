//! What a route has still to deliver: what is lost for it when it is forgotten, and left behind when it gets another name.

use std::fmt;

use postroom_core::{DeliveryState, StoreError};

use crate::view::{ReplayState, RouteStatus};
use crate::{Inspect, Replays, Selection};

/// Delayed and blocked deliveries are counted up to this number each.
const COUNTED_MAX: usize = 1_000;
/// Unfinished replays that are looked at: the newest ones.
const REPLAYS_MAX: usize = 100;

/// Deliveries that a route has not finished, by their state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// Deliveries that are due; `None` if that is not known.
    pub due: Option<u64>,
    /// Whether `due` is an estimate.
    pub due_estimated: bool,
    /// Deliveries whose time has not come.
    pub delayed: u64,
    /// Deliveries that wait for another attempt.
    pub retrying: u64,
    /// Deliveries that wait behind an earlier event of their key.
    pub blocked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Replays that are not finished and may have deliveries of the route to make.
    pub replays: u64,
}

impl Undelivered {
    /// Counts what a route has still to deliver.
    pub async fn of<A: Inspect + Replays + ?Sized>(admin: &A, status: &RouteStatus) -> Result<Self, StoreError> {
        let route = &status.route;
        let mut replays = 0;
        for state in [ReplayState::Running, ReplayState::Paused] {
            let rows = admin.replays(Some(state), REPLAYS_MAX).await?;
            let is_of = |of: &Option<String>| of.as_ref().is_none_or(|of| of == route);
            replays += rows.iter().filter(|row| is_of(&row.selection.route)).count() as u64;
        }
        Ok(Self {
            delayed: counted(admin, route, DeliveryState::Delayed).await?,
            blocked: counted(admin, route, DeliveryState::Blocked).await?,
            replays,
            ..Self::in_status(status)
        })
    }

    /// Returns what the status alone says.
    pub fn in_status(status: &RouteStatus) -> Self {
        Self {
            due: status.due,
            due_estimated: status.due_estimated,
            retrying: status.retrying,
            dead: status.dead,
            ..Self::default()
        }
    }

    /// Reports whether nothing is left; what is not known may be left.
    pub fn is_nothing(&self) -> bool {
        self.due == Some(0) && self.deliveries() == 0 && self.replays == 0
    }

    /// Number of deliveries that are known to be left, dead letters included.
    pub fn deliveries(&self) -> u64 {
        self.due.unwrap_or(0) + self.delayed + self.retrying + self.blocked + self.dead
    }

    /// Reports whether [`Undelivered::deliveries`] is all: nothing was estimated, and no count ended at its limit.
    pub fn is_exact(&self) -> bool {
        let max = COUNTED_MAX as u64;
        self.due.is_some() && !self.due_estimated && self.delayed < max && self.blocked < max
    }
}

/// Describes the deliveries by their state: `12 due, 3 dead letters`; `an unknown number due`.
impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |count: u64, one: &str, many: &str| {
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        };
        let at_least = |count: u64| if count >= COUNTED_MAX as u64 { "at least " } else { "" };
        let due = match self.due {
            None => Some("an unknown number due".to_owned()),
            Some(due) => {
                word(due, "due", "due").map(|due| format!("{}{due}", if self.due_estimated { "about " } else { "" }))
            }
        };
        let parts = [
            word(self.delayed, "delayed", "delayed").map(|text| format!("{}{text}", at_least(self.delayed))),
            due,
            word(self.retrying, "retrying", "retrying"),
            word(self.blocked, "blocked", "blocked").map(|text| format!("{}{text}", at_least(self.blocked))),
            word(self.dead, "dead letter", "dead letters"),
            word(self.replays, "unfinished replay", "unfinished replays"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

async fn counted<A: Inspect + ?Sized>(admin: &A, route: &str, state: DeliveryState) -> Result<u64, StoreError> {
    let which = Selection { route: Some(route.to_owned()), ..Selection::default() };
    Ok(admin.deliveries(&[state], &which, 0, COUNTED_MAX).await?.len() as u64)
}
