//! Finds a route that got another name in the configuration only.
//!
//! A store keeps a route by its name. Under a new name the route would start anew, at `now`, and what it had still to deliver
//! under the old one would be left behind.

use std::fmt;

use postroom_admin::view::{EVENTS_COUNTED_MAX, RelayRow, RouteDetail, RouteStatus};
use postroom_admin::{Admin, Undelivered};
use postroom_core::{Pattern, RouteSpec, StartFrom, StoreError, StoreErrorKind};

use crate::config::{RouteConfig, StoreConfig};

/// Fails if a configured route is new in the store and looks like the new name of a registered one that has undelivered events
/// and that nobody serves, or may have some. A route whose configuration says where it starts is meant to be new.
///
/// `leaving` are routes that a relay serves until it goes on with this configuration. Returns the routes that are new and start
/// with events appended from now on, each with what it passes over.
pub async fn check(
    store: &StoreConfig,
    admin: &dyn Admin,
    configured: &[&RouteConfig],
    leaving: &[&str],
) -> Result<Vec<PassedOver>, StoreError> {
    let routes = admin.routes().await?;
    let is_new = |route: &&&RouteConfig| routes.iter().all(|known| known.status.route != route.definition.name);
    let begins = |route: &&&RouteConfig| is_new(route) && !store.is_marked_by(&route.definition.name);
    let new: Vec<&&RouteConfig> = configured.iter().filter(begins).collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let relays = admin.relays().await?;
    let is_left = |route: &&RouteDetail| {
        let name = route.status.route.as_str();
        configured.iter().all(|route| route.definition.name != name)
            && (leaving.contains(&name) || !is_served(&relays, name))
    };
    for old in routes.iter().filter(is_left) {
        let Some(new) = new.iter().find(|new| !new.start_is_explicit && looks_like(old, &new.definition)) else {
            continue;
        };
        let left = Undelivered::of(admin, &old.status).await?;
        if !left.is_nothing() {
            return Err(refusal(&old.status, &left, &new.definition.name));
        }
    }
    let store = admin.store().await?;
    let events = store.events.unwrap_or(0);
    let from_now = new.iter().filter(|new| new.definition.start == StartFrom::Now && events > 0);
    let passed_over = |new: &&&RouteConfig| PassedOver {
        route: new.definition.name.clone(),
        events,
        events_estimated: store.events_estimated,
    };
    Ok(from_now.map(passed_over).collect())
}

/// New route that starts with events appended from now on, and the events before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Name of the route.
    pub route: String,
    /// Number of events in the log that the route does not deliver.
    pub events: u64,
    /// Whether `events` is an estimate.
    pub events_estimated: bool,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, events, events_estimated } = self;
        let about = match (*events_estimated, *events) {
            (false, 1) => "1 earlier event is".to_owned(),
            (false, events) => format!("{events} earlier events are"),
            (true, events) if events == EVENTS_COUNTED_MAX + 1 => {
                format!("more than {EVENTS_COUNTED_MAX} earlier events are")
            }
            (true, events) => format!("about {events} earlier events are"),
        };
        write!(
            f,
            "route {route} starts with events appended from now on: {about} not delivered to it; \
             to begin with them, run `postroom route forget {route}`, set `start = \"beginning\"` and start again"
        )
    }
}

/// Reports whether a live relay serves the route.
pub(crate) fn is_served(relays: &[RelayRow], route: &str) -> bool {
    relays.iter().any(|relay| relay.alive && relay.routes.iter().any(|served| served == route))
}

/// Reports whether a new route has the filter or the destination of a registered one.
pub(crate) fn looks_like(old: &RouteDetail, new: &RouteSpec) -> bool {
    let same =
        |old: &[String], new: &[Pattern]| old.iter().eq(new.iter().map(ToString::to_string).collect::<Vec<_>>().iter());
    let filter = &new.filter;
    let same_filter = same(&old.types, &filter.types)
        && same(&old.aggregate_type, &filter.aggregate_type)
        && same(&old.tenant, &filter.tenant);
    old.status.to == new.to || same_filter
}

fn refusal(old: &RouteStatus, left: &Undelivered, new: &str) -> StoreError {
    let name = &old.route;
    let message = format!(
        "route {new} is new in store {}, and looks like route {name} renamed: {name} is not in this configuration, and has undelivered events ({left})",
        old.store
    );
    StoreError::new(StoreErrorKind::Conflict, "register", message).hint(format!(
        "to rename it: `postroom route rename {name} {new}`; if {new} is another route, add `start = \"now\"` to it; \
         to give up the events of {name}: `postroom route forget {name}`"
    ))
}
