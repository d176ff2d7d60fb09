//! What is wrong with the relays of a store and with the routes they serve.

use std::collections::{BTreeMap, BTreeSet};

use postroom_admin::Undelivered;
use postroom_admin::view::{RelayRow, RouteDetail};
use postroom_core::{Diagnostic, RouteSpec, RouteState, Timestamp};

use crate::renamed::looks_like;

/// The relays of one store, and what they should do.
pub(super) struct Fleet<'a> {
    pub(super) store: &'a str,
    pub(super) relays: &'a [RelayRow],
    pub(super) routes: &'a [RouteDetail],
    /// What routes that no live relay serves have still to deliver.
    pub(super) left: BTreeMap<&'a str, Undelivered>,
    /// The routes that the configuration gives to the store.
    pub(super) configured: Vec<&'a RouteSpec>,
    /// Whether lanes have an owner here: rows of some adopted tables are locked one by one.
    pub(super) owned: bool,
}

pub(super) fn about(fleet: &Fleet<'_>) -> Vec<Diagnostic> {
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

fn anybody(fleet: &Fleet<'_>, alive: &[&RelayRow]) -> Diagnostic {
    if !alive.is_empty() {
        return Diagnostic::fine(format!("relays alive: {}", alive.len()));
    }
    if fleet.routes.is_empty() && fleet.configured.is_empty() {
        return Diagnostic::warning(
            "doctor.no_routes",
            "no route is configured or registered: events are kept and not delivered",
        );
    }
    let due: u64 = fleet.routes.iter().filter_map(|route| route.status.due).sum();
    let is_known = fleet.routes.iter().all(|route| route.status.due.is_some());
    let found = match due {
        0 if is_known => Diagnostic::warning("doctor.no_relay", "no relay is alive; no delivery is due"),
        0 => Diagnostic::problem("doctor.no_relay", "no relay is alive, and deliveries may be due"),
        due => Diagnostic::problem("doctor.no_relay", format!("no relay is alive, and {} due", are(due))),
    };
    if fleet.configured.is_empty() {
        // Their relays are in programs of the user's.
        return found.hint("start the programs that serve these routes again");
    }
    found.fix("postroom relay run")
}

/// Who stopped without saying so, and did not come back under its name.
fn overdue(fleet: &Fleet<'_>, alive: &[&RelayRow]) -> Vec<Diagnostic> {
    let back: BTreeSet<&str> = alive.iter().map(|relay| relay.relay.as_str()).collect();
    let mut last: BTreeMap<&str, &RelayRow> = BTreeMap::new();
    for relay in fleet.relays.iter().filter(|relay| !back.contains(relay.relay.as_str())) {
        let known = last.entry(&relay.relay).or_insert(relay);
        if known.seen_at < relay.seen_at {
            *known = relay;
        }
    }
    let told = |relay: &RelayRow| {
        let message = format!("relay {} was last seen at {:.0} and did not sign off", relay.relay, relay.seen_at);
        Diagnostic::warning("doctor.relay_overdue", message)
    };
    last.into_values().map(told).collect()
}

fn versions(alive: &[&RelayRow]) -> Option<Diagnostic> {
    let versions: BTreeSet<&str> = alive.iter().map(|relay| relay.version.as_str()).collect();
    let all: Vec<&str> = versions.into_iter().collect();
    let message = format!("relays of versions {} are alive", all.join(", "));
    (all.len() > 1).then(|| Diagnostic::warning("doctor.relay_versions", message))
}

fn twice(alive: &[&RelayRow]) -> Vec<Diagnostic> {
    let mut boots: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for relay in alive {
        boots.entry(&relay.relay).or_default().insert(&relay.boot);
    }
    let told = |(name, boots): (&str, BTreeSet<&str>)| {
        let message = format!("{} live relays have the name {name}", boots.len());
        (boots.len() > 1).then(|| Diagnostic::warning("doctor.relay_twice", message))
    };
    boots.into_iter().filter_map(told).collect()
}

fn about_route(fleet: &Fleet<'_>, alive: &[&RelayRow], route: &RouteDetail) -> Option<Diagnostic> {
    let name = &route.status.route;
    let served = alive.iter().any(|relay| relay.routes.contains(name));
    if !served && fleet.configured.iter().all(|configured| configured.name != *name) {
        return Some(orphan(fleet, route));
    }
    match route.status.state {
        RouteState::Paused => return forgotten_pause(route),
        state @ (RouteState::BreakerOpen
        | RouteState::HalfOpen
        | RouteState::Slowed
        | RouteState::Misconfigured
        | RouteState::Disabled
        | RouteState::Halted) => {
            let (state, message) = (state.as_str().replace('_', " "), &route.status.message);
            return Some(Diagnostic::problem("doctor.route_stopped", format!("route {name} is {state}: {message}")));
        }
        RouteState::CountsDiffer => {
            let message = format!("route {name} may have passed events: {}", route.status.message);
            return Some(Diagnostic::problem("doctor.counts_differ", message).fix("postroom store repair"));
        }
        RouteState::Running if served && fleet.owned => {}
        _ => return None,
    }
    let holds = |holder: &str| alive.iter().any(|relay| relay.relay == holder || relay.boot == holder);
    let free = route.lanes.iter().filter(|lane| !lane.holder.as_deref().is_some_and(holds)).count();
    let message = format!("no relay owns {free} of the {} lanes of route {name}", route.lanes.len());
    (free > 0).then(|| Diagnostic::warning("doctor.lanes_free", message))
}

/// How long a pause is nobody's oversight.
const PAUSE_MAX_SECONDS: i64 = 3600;

/// Pause that somebody may have forgotten: it is old, and events wait for its end.
fn forgotten_pause(route: &RouteDetail) -> Option<Diagnostic> {
    let (name, due) = (&route.status.route, route.status.due);
    let since = route.paused_at?;
    if due == Some(0) || Timestamp::now().duration_since(since).as_secs() < PAUSE_MAX_SECONDS {
        return None;
    }
    let due = due.map_or_else(|| "deliveries may be".to_owned(), are);
    let message = format!("route {name} is {} since {since:.0}, and {due} due", route.status.message);
    Some(Diagnostic::warning("doctor.route_paused", message).fix(format!("postroom route resume {name}")))
}

/// Formats a number of deliveries with its verb: `1 delivery is`.
fn are(deliveries: u64) -> String {
    if deliveries == 1 { "1 delivery is".to_owned() } else { format!("{deliveries} deliveries are") }
}

/// Registered route that is not in this configuration and that no live relay serves: its program is down, it was renamed, or
/// it is not wanted any more. Forgetting it is proposed only where nothing is lost by it.
fn orphan(fleet: &Fleet<'_>, route: &RouteDetail) -> Diagnostic {
    let (name, store) = (&route.status.route, fleet.store);
    let left = fleet.left.get(name.as_str()).cloned().unwrap_or_else(|| Undelivered::in_status(&route.status));
    let left = (!left.is_nothing()).then_some(left);
    let has = match &left {
        None => "has nothing to deliver".to_owned(),
        Some(left) if left.deliveries() == 0 && left.replays == 0 => {
            "may have undelivered events: too many others come first to be searched".to_owned()
        }
        Some(left) => format!("has undelivered events ({left})"),
    };
    // A relay that had one of our routes ran with this configuration, before it was changed.
    let is_ours = |relay: &RelayRow| fleet.configured.iter().any(|route| relay.routes.contains(&route.name));
    let serving = fleet.relays.iter().filter(|relay| relay.routes.contains(name) && !is_ours(relay));
    if let Some(relay) = serving.max_by_key(|relay| relay.seen_at) {
        let message = format!(
            "route {name} {has} and no live relay: relay {}, which served it, was last seen at {:.0}",
            relay.relay, relay.seen_at
        );
        let found = if left.is_some() { Diagnostic::problem } else { Diagnostic::warning };
        return found("doctor.route_orphan", message)
            .hint(format!("start the program of relay {} again: the route is not in this configuration", relay.relay));
    }
    let message = format!("route {name} {has}, and is neither configured nor served by a relay");
    let is_registered = |name: &str| fleet.routes.iter().any(|route| route.status.route == name);
    let renamed = fleet.configured.iter().find(|new| !is_registered(&new.name) && looks_like(route, new));
    match (left, renamed) {
        (Some(_), Some(new)) => Diagnostic::problem("doctor.route_orphan", message)
            .hint(format!("it looks like route {}, which is configured and new", new.name))
            .fix(format!("postroom route rename {name} {} --store {store}", new.name)),
        (Some(left), None) => Diagnostic::problem("doctor.route_orphan", message).hint(format!(
            "put it back into the configuration, or give it the name of a configured route: `postroom route rename {name} NEW`; \
             `postroom route forget {name}` would lose these events for this route: {left}"
        )),
        (None, _) => Diagnostic::warning("doctor.route_orphan", message)
            .hint("it keeps events from being removed; forgetting it loses nothing")
            .fix(format!("postroom route forget {name} --store {store}")),
    }
}

#[cfg(test)]
mod tests {
    use postroom_admin::view::{Counts, LaneRow, RouteStatus};
    use postroom_core::{OnDead, OnFailure};

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
                since: None,
                next_try: None,
                due: Some(0),
                due_estimated: false,
                oldest_due_seconds: Some(0.0),
                rate: 0.0,
                rate_1m: 0.0,
                delivered: 0,
                retrying: 0,
                blocked_keys: 0,
                dead: 0,
                message: "kafka.timeout".to_owned(),
                consumers: None,
            },
            types: Vec::new(),
            aggregate_type: Vec::new(),
            tenant: Vec::new(),
            start: "now".to_owned(),
            on_failure: OnFailure::Block,
            on_dead: OnDead::Hold,
            registered_at: Timestamp::UNIX_EPOCH,
            paused_by: None,
            paused_at: None,
            pause_reason: None,
            lanes: holders.iter().copied().enumerate().map(lane).collect(),
        }
    }

    fn codes(relays: &[RelayRow], routes: &[RouteDetail], configured: &[&str]) -> Vec<String> {
        let specs: Vec<RouteSpec> = configured.iter().map(|name| RouteSpec::new(*name)).collect();
        let fleet = Fleet {
            store: "main",
            relays,
            routes,
            left: BTreeMap::new(),
            configured: specs.iter().collect(),
            owned: true,
        };
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
        let paused = |due, minutes| {
            let mut route = route("orders", RouteState::Paused, &[None]);
            route.status.due = Some(due);
            route.paused_at = Some(Timestamp::now() - std::time::Duration::from_mins(minutes));
            about(route, &["orders"])
        };
        assert_eq!((paused(0, 90), paused(3, 10)), (Vec::new(), Vec::new()));
        assert_eq!(paused(3, 90), ["doctor.route_paused"]);
        for stopped in [RouteState::BreakerOpen, RouteState::HalfOpen, RouteState::Slowed] {
            assert_eq!(about(route("orders", stopped, &held), &["orders"]), ["doctor.route_stopped"]);
        }
        let orphan = |due: Option<u64>, configured: &[&str]| {
            let mut old = route("old", RouteState::Orphan, &[None]);
            old.status.due = due;
            let specs: Vec<RouteSpec> = configured.iter().map(|name| RouteSpec::new(*name)).collect();
            let fleet = Fleet {
                store: "main",
                relays: &[],
                routes: &[old],
                left: BTreeMap::new(),
                configured: specs.iter().collect(),
                owned: true,
            };
            super::about(&fleet).into_iter().find(|found| found.code.as_deref() == Some("doctor.route_orphan")).unwrap()
        };
        let unused = orphan(Some(0), &["orders"]);
        assert_eq!(unused.fix.as_deref(), Some("postroom route forget old --store main"), "nothing is lost by it");
        let renamed = orphan(Some(3), &["new"]);
        assert_eq!(renamed.fix.as_deref(), Some("postroom route rename old new --store main"));
        let left = orphan(Some(3), &[]);
        assert!(
            left.fix.is_none() && left.hint.clone().unwrap().contains("would lose these events for this route: 3 due")
        );
        let unknown = orphan(None, &[]);
        assert!(unknown.fix.is_none() && unknown.message.contains("may have undelivered events"), "{unknown:?}");
        let mut program = relay("shop", "9", "1.0", false);
        program.routes = vec!["old".to_owned()];
        let (mut old, none) = (route("old", RouteState::Orphan, &[None]), []);
        old.status.dead = 2;
        let fleet = Fleet {
            store: "main",
            relays: &[program],
            routes: &[old],
            left: BTreeMap::new(),
            configured: none.to_vec(),
            owned: true,
        };
        let down = super::about(&fleet).into_iter().find(|found| found.code.as_deref() == Some("doctor.route_orphan"));
        assert!(
            down.as_ref().is_some_and(|down| down.fix.is_none() && down.hint.clone().unwrap().contains("relay shop")),
            "{down:?}"
        );
        for free in [[Some("a"), None], [Some("a"), Some("gone")]] {
            assert_eq!(about(route("orders", RouteState::Running, &free), &["orders"]), ["doctor.lanes_free"]);
        }
    }
}
