//! Routes: where they start, what they agree on, how they are paused and forgotten.

use postroom_admin::view::ReplayKind;
use postroom_admin::{ReplayChange, ReplayOrder, Selection};
use postroom_core::{Clock, Event, Failure, Filter, RouteHealth, RouteSpec, RouteState, StartFrom, StoreErrorKind};

use super::bench::{LEASE, SECOND, actor, event, events, named, names, route};
use super::{Bench, StoreHarness, Worker};

pub async fn a_route_starts_with_what_commits_after_its_registration<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&RouteSpec::new("now")).await;
    s.append(&events("a", 4..=5)).await;
    assert_eq!(worker.drain().await, names("a", 4..=5));
    assert_eq!(s.timeline("a-3", "now").await.state, "before_start");
}

pub async fn a_route_can_start_with_the_oldest_event<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    assert_eq!(s.serve(&route()).await.drain().await, names("a", 1..=3));
}

pub async fn a_route_can_start_at_a_time<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    s.pass(10 * SECOND);
    let at = s.harness.clock().now();
    s.append(&events("a", 3..=3)).await;
    s.pass(10 * SECOND);
    s.append(&events("a", 4..=4)).await;
    let worker = s.serve(&RouteSpec { start: StartFrom::At(at), ..RouteSpec::new("at") }).await;
    assert_eq!(worker.drain().await, names("a", 3..=4));
    assert_eq!(s.timeline("a-2", "at").await.state, "before_start");
}

pub async fn a_route_can_start_at_a_time_that_is_yet_to_come<H: StoreHarness>(s: &Bench<H>) {
    let at = s.harness.clock().now() + 10 * SECOND;
    let worker = s.serve(&RouteSpec { start: StartFrom::At(at), ..RouteSpec::new("at") }).await;
    s.append(&events("a", 1..=2)).await;
    assert!(worker.drain().await.is_empty());
    s.pass(10 * SECOND);
    s.append(&events("a", 3..=3)).await;
    assert_eq!(worker.drain().await, ["a-3"]);
}

pub async fn a_route_keeps_its_place_over_a_reopening<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&RouteSpec::new("now")).await;
    s.append(&events("a", 1..=2)).await;
    assert_eq!(worker.drain().await, names("a", 1..=2));
    worker.source.release().await.unwrap();
    s.append(&events("a", 3..=3)).await;
    let reopened = s.harness.reopen().await;
    // Its start was decided when it was registered; it is not "now" again.
    let worker = Worker::open(&reopened, &s.relay("other"), &RouteSpec::new("now")).await.unwrap();
    assert_eq!(worker.drain().await, ["a-3"]);
}

pub async fn registering_gives_a_route_its_place_before_anybody_serves_it<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let routes = [RouteSpec::new("now"), named("all")];
    assert_eq!(s.admin().register(&routes).await.unwrap(), ["now", "all"]);
    assert!(s.admin().register(&routes).await.unwrap().is_empty(), "the second time there is nothing new");
    s.append(&events("a", 2..=2)).await;
    assert_eq!(s.detail("now").await.status.state, RouteState::Orphan);
    assert_eq!(s.serve(&routes[0]).await.drain().await, ["a-2"]);
    assert_eq!(s.serve(&routes[1]).await.drain().await, names("a", 1..=2));
    assert_eq!(s.detail("now").await.status.state, RouteState::Running);
}

pub async fn a_route_of_an_impossible_name_is_refused<H: StoreHarness>(s: &Bench<H>) {
    for bad in ["", "Orders", "a b", "-a"] {
        let error = s.admin().register(&[RouteSpec::new(bad)]).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Invalid, "{bad}");
    }
    assert!(s.admin().register(&[route(), RouteSpec::new("A")]).await.is_err());
    assert!(s.admin().routes().await.unwrap().is_empty(), "all or none");
}

pub async fn a_changed_filter_applies_from_the_position_on<H: StoreHarness>(s: &Bench<H>) {
    let orders = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..route() };
    let invoice = |n: u32| Event::new("invoice.sent").key("a").id(format!("a-{n}"));
    let worker = s.serve(&orders).await;
    s.append(&[event("a", 1), invoice(2)]).await;
    assert_eq!(worker.drain().await, ["a-1"]);
    worker.source.release().await.unwrap();
    s.append(&[event("a", 3), invoice(4)]).await;
    let invoices = RouteSpec { filter: Filter::types(["invoice.*"]).unwrap(), to: "elsewhere".to_owned(), ..route() };
    let worker = s.serve(&invoices).await;
    assert_eq!(worker.drain().await, ["a-4"], "what it has passed stays passed");
    let detail = s.detail("all").await;
    assert_eq!((detail.types, detail.status.to.as_str()), (vec!["invoice.*".to_owned()], "elsewhere"));
    let actions = s.admin().audit(None, 10).await.unwrap();
    assert!(actions.iter().any(|action| action.action.starts_with("route.") && action.subject.contains("all")));
}

pub async fn a_live_relay_with_another_definition_is_a_conflict<H: StoreHarness>(s: &Bench<H>) {
    let orders = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..route() };
    let first = s.serve_as("first", &route()).await.unwrap();
    first.take().await;
    let error = s.serve_as("second", &orders).await.err().expect("they disagree");
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    assert!(error.message.contains("all") && !error.hint.is_empty(), "{error}");
    assert!(s.detail("all").await.types.is_empty(), "the first one's definition stays");
    assert!(s.serve_as("third", &route()).await.is_ok(), "one that agrees is welcome");
    s.pass(LEASE + SECOND);
    assert!(s.serve_as("second", &orders).await.is_ok(), "the dead have no say");
}

/// A receiver that is gone for good pauses its route through the relay, and people can tell it from their own pauses.
pub async fn a_route_that_a_relay_disabled_says_so_until_it_is_resumed<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    let gone = Failure::gone("webhook.gone", "410 Gone");
    worker.source.disable(&gone).await.unwrap();
    worker.source.disable(&gone).await.unwrap();
    let status = s.detail("all").await.status;
    assert_eq!((status.state, status.message.starts_with("webhook.gone: 410 Gone;")), (RouteState::Disabled, true));
    let take = worker.look().await;
    assert!(take.deliveries.is_empty() && take.ownership.paused);
    let trail = s.admin().audit(None, 10).await.unwrap();
    assert_eq!(trail.iter().filter(|row| row.action == "route.pause").count(), 1, "twice changes nothing");
    assert!(s.admin().resume("all", &actor()).await.unwrap());
    assert_ne!(s.detail("all").await.status.state, RouteState::Disabled);
}

pub async fn a_paused_route_hands_out_nothing_until_it_is_resumed<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    assert!(s.admin().pause("all", &actor()).await.unwrap());
    assert!(!s.admin().pause("all", &actor()).await.unwrap(), "twice changes nothing");
    s.append(&events("a", 3..=4)).await;
    let take = worker.look().await;
    assert!(take.deliveries.is_empty() && take.ownership.paused);
    assert!(worker.renew().await.paused);
    assert!(worker.deliver(&taken).await.paused, "what is on its way is settled");
    let detail = s.detail("all").await;
    assert_eq!((detail.status.state, detail.paused_by.as_deref()), (RouteState::Paused, Some("ada")));
    assert_eq!((detail.status.delivered, detail.status.due), (2, Some(2)));
    assert!(s.admin().resume("all", &actor()).await.unwrap());
    assert!(!s.admin().resume("all", &actor()).await.unwrap());
    assert_eq!(worker.drain().await, names("a", 3..=4));
    let actions: Vec<String> = s.admin().audit(None, 10).await.unwrap().into_iter().map(|row| row.action).collect();
    assert_eq!(actions, ["route.resume", "route.pause"], "newest first, and only what changed something");
}

pub async fn acting_on_a_route_that_is_not_there_says_so<H: StoreHarness>(s: &Bench<H>) {
    let admin = s.admin();
    let errors = [
        admin.pause("nope", &actor()).await.unwrap_err(),
        admin.resume("nope", &actor()).await.unwrap_err(),
        admin.forget("nope", &actor()).await.unwrap_err(),
        admin.unblock("nope", "a", &actor()).await.unwrap_err(),
        admin.skip_head("nope", "a", &actor()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind, StoreErrorKind::NotFound);
        assert!(error.message.contains("nope"), "{error}");
    }
}

pub async fn a_route_is_forgotten_only_when_nobody_serves_it<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    worker.kill(&taken[0]).await;
    let error = s.admin().forget("all", &actor()).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    worker.source.release().await.unwrap();
    s.admin().forget("all", &actor()).await.unwrap();
    assert!(s.admin().routes().await.unwrap().is_empty());
    assert!(s.dead().await.is_empty(), "its deliveries are gone with it");
    let action = s.admin().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(
        (action.action.as_str(), action.count),
        ("route.forget", 3),
        "the audit says how many were not delivered"
    );
    assert!(s.admin().verify().await.unwrap().is_empty());
    assert_eq!(s.serve(&route()).await.drain().await, names("a", 1..=3), "registered again it starts anew");
}

pub async fn a_route_is_forgotten_once_its_relay_is_dead<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    assert!(s.admin().forget("all", &actor()).await.is_err());
    s.pass(LEASE + SECOND);
    s.admin().forget("all", &actor()).await.unwrap();
    assert!(s.admin().routes().await.unwrap().is_empty());
}

pub async fn a_renamed_route_keeps_its_position_deliveries_and_dead_letters<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    s.append(&events("b", 1..=2)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    let of = |id: &str| taken.iter().find(|delivery| delivery.event.id == id).unwrap();
    worker.kill(of("a-1")).await;
    worker.deliver(&[of("b-1").clone()]).await;
    let error = s.admin().rename("all", "orders", &actor()).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict, "a live relay serves it");
    worker.source.release().await.unwrap();
    s.admin().register(&[named("other")]).await.unwrap();
    for (to, kind) in [("other", StoreErrorKind::Conflict), ("Bad name", StoreErrorKind::Invalid)] {
        assert_eq!(s.admin().rename("all", to, &actor()).await.unwrap_err().kind, kind, "{to}");
    }
    assert_eq!(s.admin().rename("nope", "new", &actor()).await.unwrap_err().kind, StoreErrorKind::NotFound);
    s.admin().rename("all", "orders", &actor()).await.unwrap();
    let names: Vec<String> = s.admin().routes().await.unwrap().into_iter().map(|route| route.status.route).collect();
    assert_eq!(names, ["orders", "other"]);
    assert_eq!(s.dead().await[0].route, "orders");
    assert_eq!(s.timeline("b-1", "orders").await.state, "delivered");
    assert_eq!(s.timeline("a-1", "orders").await.attempts.len(), 1);
    s.agrees().await;
    let trail = s.admin().audit(None, 1).await.unwrap();
    let said = (trail[0].action.as_str(), trail[0].subject.as_str(), trail[0].count);
    assert_eq!(said, ("route.rename", "all to orders", 1));
    let worker = s.serve(&named("orders")).await;
    let mut rest = worker.drain().await;
    rest.sort();
    assert_eq!(rest, ["a-2", "b-2"], "it goes on where it was");
    assert_eq!(s.replay(ReplayKind::Dead, &Selection::default()).await, 1);
    assert_eq!(worker.drain().await, ["a-1"]);
    s.agrees().await;
}

pub async fn a_route_is_not_renamed_while_a_replay_is_unfinished<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    worker.drain().await;
    worker.source.release().await.unwrap();
    let (what, which) = (ReplayKind::Settled, Selection::default());
    let order = ReplayOrder { what, which, rate: None, allow_duplicates: false, total: 2 };
    let replay = s.admin().start_replay(&order, &actor()).await.unwrap();
    let error = s.admin().rename("all", "new", &actor()).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    assert!(error.message.contains(&replay.id), "{error}");
    s.admin().change_replay(&replay.id, ReplayChange::Cancel, &actor()).await.unwrap();
    s.admin().rename("all", "new", &actor()).await.unwrap();
}

pub async fn a_pause_says_who_when_and_why<H: StoreHarness>(s: &Bench<H>) {
    s.serve(&route()).await;
    let at = s.harness.clock().now();
    let ann = postroom_core::Actor { name: "ann".to_owned(), reason: Some("vendor asked".to_owned()) };
    s.admin().pause("all", &ann).await.unwrap();
    let detail = s.detail("all").await;
    assert_eq!(detail.status.message, "paused by ann: vendor asked");
    assert_eq!((detail.pause_reason.as_deref(), detail.paused_at.is_some()), (Some("vendor asked"), true));
    assert_eq!(detail.status.since, detail.paused_at);
    assert!(detail.paused_at.unwrap().duration_since(at).abs() < jiff::SignedDuration::from_secs(1));
    s.admin().resume("all", &ann).await.unwrap();
    let detail = s.detail("all").await;
    assert_eq!((detail.paused_by, detail.paused_at, detail.pause_reason), (None, None, None));
}

pub async fn a_wish_to_try_the_destination_now_reaches_the_relay<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    let asked = async || worker.source.renew(&RouteHealth::running()).await.unwrap().probe_asked;
    assert_eq!(asked().await, None);
    assert!(s.admin().probe("all", &actor()).await.unwrap());
    let first = asked().await;
    assert!(first.is_some());
    s.pass(SECOND);
    assert!(s.admin().probe("all", &actor()).await.unwrap());
    assert!(asked().await > first);
    s.admin().pause("all", &actor()).await.unwrap();
    assert!(!s.admin().probe("all", &actor()).await.unwrap(), "a paused route tries nothing");
    assert_eq!(s.admin().probe("nope", &actor()).await.unwrap_err().kind, StoreErrorKind::NotFound);
}

pub async fn what_a_relay_says_of_its_route_is_shown<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    let now = s.harness.clock().now();
    let at = |seconds: i64| now + jiff::SignedDuration::from_secs(seconds);
    let health = RouteHealth {
        since: Some(at(-60)),
        next_try: Some(at(5)),
        rate: 2.5,
        ..RouteHealth::new(RouteState::BreakerOpen, "connection refused")
    };
    worker.source.renew(&health).await.unwrap();
    let status = s.detail("all").await.status;
    assert_eq!((status.state, status.message.as_str()), (RouteState::BreakerOpen, "connection refused"));
    assert_eq!((status.since, status.next_try, status.rate), (health.since, health.next_try, 2.5));
    s.pass(LEASE + SECOND);
    assert_eq!(s.detail("all").await.status.state, RouteState::Orphan, "the dead say nothing");
}

pub async fn tokens_are_made_listed_and_revoked<H: StoreHarness>(s: &Bench<H>) {
    crate::tokens::made_listed_and_revoked(&*s.admin()).await;
}

pub async fn tokens_are_rotated_and_their_use_is_recorded<H: StoreHarness>(s: &Bench<H>) {
    crate::tokens::rotated_and_used(&*s.admin()).await;
}
