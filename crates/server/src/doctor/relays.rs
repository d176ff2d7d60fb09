//! What is wrong with the relays of a store and with the routes they serve.

use std::collections::{BTreeMap, BTreeSet};

use postroom_core::RouteState;
use postroom_core::view::{Found, RelayRow, RouteDetail};

/// The relays of one store, and what they should do.
pub(super) struct Fleet<'a> {
    pub(super) store: &'a str,
    pub(super) relays: &'a [RelayRow],
    pub(super) routes: &'a [RouteDetail],
    /// The routes that the configuration gives to the store.
    pub(super) configured: Vec<&'a str>,
    /// Whether lanes have an owner here: rows of some adopted tables are locked one by one.
    pub(super) owned: bool,
}

pub(super) fn about(fleet: &Fleet<'_>) -> Vec<Found> {
    let alive: Vec<&RelayRow> = fleet.relays.iter().filter(|relay| relay.alive).collect();
    let mut found = vec![anybody(fleet, &alive)];
    found.extend(overdue(fleet, &alive));
    found.extend(versions(&alive));
    found.extend(twice(&alive));
    for route in fleet.routes {
        found.extend(about_route(fleet, &alive, route).map(|found| found.of_route(&route.status.route)));
    }
    found
}

fn anybody(fleet: &Fleet<'_>, alive: &[&RelayRow]) -> Found {
    if !alive.is_empty() {
        return Found::fine(format!("relays alive: {}", alive.len()));
    }
    if fleet.routes.is_empty() && fleet.configured.is_empty() {
        return Found::fine("no relay is alive, and there is no route to serve");
    }
    let due: u64 = fleet.routes.iter().map(|route| route.status.due).sum();
    let found = if due > 0 {
        Found::problem("doctor.no_relay", format!("no relay is alive, and something is due: {due}"))
    } else {
        Found::warning("doctor.no_relay", "no relay is alive; nothing is due")
    };
    found.mend("postroom relay run")
}

/// Who stopped without saying so, and did not come back under its name.
fn overdue(fleet: &Fleet<'_>, alive: &[&RelayRow]) -> Vec<Found> {
    let back: BTreeSet<&str> = alive.iter().map(|relay| relay.relay.as_str()).collect();
    let mut last: BTreeMap<&str, &RelayRow> = BTreeMap::new();
    for relay in fleet.relays.iter().filter(|relay| !back.contains(relay.relay.as_str())) {
        let known = last.entry(&relay.relay).or_insert(relay);
        if known.seen_at < relay.seen_at {
            *known = relay;
        }
    }
    let told = |relay: &RelayRow| {
        let message = format!("relay {} was last seen at {:.0} and did not say goodbye", relay.relay, relay.seen_at);
        Found::warning("doctor.relay_overdue", message)
    };
    last.into_values().map(told).collect()
}

fn versions(alive: &[&RelayRow]) -> Option<Found> {
    let versions: BTreeSet<&str> = alive.iter().map(|relay| relay.version.as_str()).collect();
    let all: Vec<&str> = versions.into_iter().collect();
    let message = format!("relays of versions {} are alive", all.join(", "));
    (all.len() > 1).then(|| Found::warning("doctor.relay_versions", message))
}

fn twice(alive: &[&RelayRow]) -> Vec<Found> {
    let mut boots: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for relay in alive {
        boots.entry(&relay.relay).or_default().insert(&relay.boot);
    }
    let told = |(name, boots): (&str, BTreeSet<&str>)| {
        let message = format!("{} live relays are called {name}", boots.len());
        (boots.len() > 1).then(|| Found::warning("doctor.relay_twice", message))
    };
    boots.into_iter().filter_map(told).collect()
}

fn about_route(fleet: &Fleet<'_>, alive: &[&RelayRow], route: &RouteDetail) -> Option<Found> {
    let name = &route.status.route;
    let served = alive.iter().any(|relay| relay.routes.contains(name));
    if !served && !fleet.configured.contains(&name.as_str()) {
        let message = format!("route {name} is registered, but neither configured nor served by anybody");
        return Some(
            Found::warning("doctor.route_orphan", message)
                .hint("it keeps events from being removed; its deliveries and dead letters are forgotten with it")
                .mend(format!("postroom route forget {name} --store {}", fleet.store)),
        );
    }
    match route.status.state {
        state @ (RouteState::BreakerOpen
        | RouteState::HalfOpen
        | RouteState::Slowed
        | RouteState::Misconfigured
        | RouteState::Disabled
        | RouteState::Halted) => {
            let (state, note) = (state.as_str().replace('_', " "), &route.status.note);
            return Some(Found::problem("doctor.route_stopped", format!("route {name} is {state}: {note}")));
        }
        RouteState::CountsDiffer => {
            let message = format!("route {name} may have passed events: {}", route.status.note);
            return Some(Found::problem("doctor.counts_differ", message).mend("postroom store repair"));
        }
        RouteState::Running if served && fleet.owned => {}
        _ => return None,
    }
    let holds = |holder: &str| alive.iter().any(|relay| relay.relay == holder || relay.boot == holder);
    let free = route.lanes.iter().filter(|lane| !lane.holder.as_deref().is_some_and(holds)).count();
    let message = format!("nobody holds {free} of the {} lanes of route {name}", route.lanes.len());
    (free > 0).then(|| Found::warning("doctor.lanes_free", message))
}

#[cfg(test)]
mod tests {
    use postroom_core::view::{Counts, LaneRow, RouteStatus};
    use postroom_core::{OnDead, OnFailure, Timestamp};

    use super::*;

    fn relay(name: &str, boot: &str, version: &str, alive: bool) -> RelayRow {
        RelayRow {
            store: "main".to_owned(),
            relay: name.to_owned(),
            boot: boot.to_owned(),
            version: version.to_owned(),
            alive,
            started_at: Timestamp::UNIX_EPOCH,
            seen_at: Timestamp::UNIX_EPOCH,
            lanes: 0,
            routes: vec!["orders".to_owned()],
        }
    }

    fn route(name: &str, state: RouteState, holders: &[Option<&str>]) -> RouteDetail {
        let lane = |(n, holder): (usize, Option<&str>)| LaneRow {
            lane: u32::try_from(n).unwrap(),
            holder: holder.map(str::to_owned),
            term: 1,
            hwm: 0,
            unsettled: 0,
            counts: Counts::default(),
        };
        RouteDetail {
            status: RouteStatus {
                store: "main".to_owned(),
                route: name.to_owned(),
                to: "noop".to_owned(),
                state,
                due: 0,
                due_estimated: false,
                oldest_due_seconds: 0.0,
                rate: 0.0,
                delivered: 0,
                retrying: 0,
                blocked_keys: 0,
                dead: 0,
                note: "kafka.timeout".to_owned(),
            },
            types: Vec::new(),
            aggregate_type: Vec::new(),
            tenant: Vec::new(),
            start: "now".to_owned(),
            on_failure: OnFailure::Block,
            on_dead: OnDead::Hold,
            registered_at: Timestamp::UNIX_EPOCH,
            paused_by: None,
            lanes: holders.iter().copied().enumerate().map(lane).collect(),
        }
    }

    fn codes(relays: &[RelayRow], routes: &[RouteDetail], configured: &[&str]) -> Vec<String> {
        let fleet = Fleet { store: "main", relays, routes, configured: configured.to_vec(), owned: true };
        about(&fleet).into_iter().filter_map(|found| found.code).collect()
    }

    #[test]
    fn relays_that_differ_share_a_name_or_are_overdue_are_told() {
        let one = relay("a", "1", "1.0", true);
        assert_eq!(codes(std::slice::from_ref(&one), &[], &["orders"]), Vec::<String>::new());
        let old = relay("b", "2", "0.9", true);
        assert_eq!(codes(&[one.clone(), old], &[], &[]), ["doctor.relay_versions"]);
        assert_eq!(codes(&[one.clone(), relay("a", "2", "1.0", true)], &[], &[]), ["doctor.relay_twice"]);
        let before = relay("a", "0", "1.0", false);
        assert_eq!(codes(&[one.clone(), before], &[], &[]), Vec::<String>::new(), "it came back under its name");
        assert_eq!(codes(&[one, relay("b", "0", "1.0", false)], &[], &[]), ["doctor.relay_overdue"]);
    }

    #[test]
    fn routes_that_are_stopped_nobodys_or_not_held_are_told() {
        let relays = [relay("a", "1", "1.0", true)];
        let about = |route: RouteDetail, configured: &[&str]| codes(&relays, &[route], configured);
        let held = [Some("a"), Some("a")];
        assert_eq!(about(route("orders", RouteState::Running, &held), &["orders"]), Vec::<String>::new());
        assert_eq!(
            about(route("orders", RouteState::Running, &held), &[]),
            Vec::<String>::new(),
            "a live relay has it"
        );
        assert_eq!(about(route("orders", RouteState::Paused, &[None]), &["orders"]), Vec::<String>::new());
        for stopped in [RouteState::BreakerOpen, RouteState::HalfOpen, RouteState::Slowed] {
            assert_eq!(about(route("orders", stopped, &held), &["orders"]), ["doctor.route_stopped"]);
        }
        assert_eq!(about(route("old", RouteState::Orphan, &[None]), &["orders"]), ["doctor.route_orphan"]);
        for free in [[Some("a"), None], [Some("a"), Some("gone")]] {
            assert_eq!(about(route("orders", RouteState::Running, &free), &["orders"]), ["doctor.lanes_free"]);
        }
    }
}
