//! Routes: where they start, what they agree on, how they are paused and forgotten.

use postroom_core::{
    Actor, Clock, Event, Failure, Filter, RouteDefinition, RouteState, Start, StoreErrorKind, disabled_by,
};

use super::bench::{LEASE, SECOND, actor, event, events, named, names, route};
use super::{Bench, StoreHarness, Worker};

pub async fn a_route_starts_with_what_commits_after_its_registration<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let worker = s.serve(&RouteDefinition::new("now")).await;
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
    let worker = s.serve(&RouteDefinition { start: Start::At(at), ..RouteDefinition::new("at") }).await;
    assert_eq!(worker.drain().await, names("a", 3..=4));
    assert_eq!(s.timeline("a-2", "at").await.state, "before_start");
}

pub async fn a_route_can_start_at_a_time_that_is_yet_to_come<H: StoreHarness>(s: &Bench<H>) {
    let at = s.harness.clock().now() + 10 * SECOND;
    let worker = s.serve(&RouteDefinition { start: Start::At(at), ..RouteDefinition::new("at") }).await;
    s.append(&events("a", 1..=2)).await;
    assert!(worker.drain().await.is_empty());
    s.pass(10 * SECOND);
    s.append(&events("a", 3..=3)).await;
    assert_eq!(worker.drain().await, ["a-3"]);
}

pub async fn a_route_keeps_its_place_over_a_reopening<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&RouteDefinition::new("now")).await;
    s.append(&events("a", 1..=2)).await;
    assert_eq!(worker.drain().await, names("a", 1..=2));
    worker.source.release().await.unwrap();
    s.append(&events("a", 3..=3)).await;
    let reopened = s.harness.reopen().await;
    // Its start was decided when it was registered; it is not "now" again.
    let worker = Worker::open(&reopened, &s.relay("other"), &RouteDefinition::new("now")).await.unwrap();
    assert_eq!(worker.drain().await, ["a-3"]);
}

pub async fn registering_gives_a_route_its_place_before_anybody_serves_it<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let routes = [RouteDefinition::new("now"), named("all")];
    assert_eq!(s.desk().register(&routes).await.unwrap(), ["now", "all"]);
    assert!(s.desk().register(&routes).await.unwrap().is_empty(), "the second time there is nothing new");
    s.append(&events("a", 2..=2)).await;
    assert_eq!(s.detail("now").await.status.state, RouteState::Orphan);
    assert_eq!(s.serve(&routes[0]).await.drain().await, ["a-2"]);
    assert_eq!(s.serve(&routes[1]).await.drain().await, names("a", 1..=2));
    assert_eq!(s.detail("now").await.status.state, RouteState::Running);
}

pub async fn a_route_of_an_impossible_name_is_refused<H: StoreHarness>(s: &Bench<H>) {
    for bad in ["", "Orders", "a b", "-a"] {
        let error = s.desk().register(&[RouteDefinition::new(bad)]).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Invalid, "{bad}");
    }
    assert!(s.desk().register(&[route(), RouteDefinition::new("A")]).await.is_err());
    assert!(s.desk().routes().await.unwrap().is_empty(), "all or none");
}

pub async fn a_changed_filter_applies_from_the_position_on<H: StoreHarness>(s: &Bench<H>) {
    let orders = RouteDefinition { filter: Filter::types(["order.*"]).unwrap(), ..route() };
    let invoice = |n: u32| Event::new("invoice.sent").key("a").id(format!("a-{n}"));
    let worker = s.serve(&orders).await;
    s.append(&[event("a", 1), invoice(2)]).await;
    assert_eq!(worker.drain().await, ["a-1"]);
    worker.source.release().await.unwrap();
    s.append(&[event("a", 3), invoice(4)]).await;
    let invoices =
        RouteDefinition { filter: Filter::types(["invoice.*"]).unwrap(), to: "elsewhere".to_owned(), ..route() };
    let worker = s.serve(&invoices).await;
    assert_eq!(worker.drain().await, ["a-4"], "what it has passed stays passed");
    let detail = s.detail("all").await;
    assert_eq!((detail.types, detail.status.to.as_str()), (vec!["invoice.*".to_owned()], "elsewhere"));
    let actions = s.desk().actions(None, 10).await.unwrap();
    assert!(actions.iter().any(|action| action.action.starts_with("route.") && action.subject.contains("all")));
}

pub async fn a_live_relay_with_another_definition_is_a_conflict<H: StoreHarness>(s: &Bench<H>) {
    let orders = RouteDefinition { filter: Filter::types(["order.*"]).unwrap(), ..route() };
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
    s.serve(&route()).await;
    let gone = Failure::unavailable("webhook.gone", "410 Gone").disables();
    let relay = Actor { name: disabled_by(&gone), reason: None };
    assert!(s.desk().pause("all", &relay).await.unwrap());
    let status = s.detail("all").await.status;
    assert_eq!((status.state, status.note.starts_with("webhook.gone: 410 Gone;")), (RouteState::Disabled, true));
    assert!(s.desk().resume("all", &actor()).await.unwrap());
    assert_ne!(s.detail("all").await.status.state, RouteState::Disabled);
}

pub async fn a_paused_route_hands_out_nothing_until_it_is_resumed<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    assert!(s.desk().pause("all", &actor()).await.unwrap());
    assert!(!s.desk().pause("all", &actor()).await.unwrap(), "twice changes nothing");
    s.append(&events("a", 3..=4)).await;
    let take = worker.look().await;
    assert!(take.deliveries.is_empty() && take.standing.paused);
    assert!(worker.renew().await.paused);
    assert!(worker.deliver(&taken).await.paused, "what is on its way is settled");
    let detail = s.detail("all").await;
    assert_eq!((detail.status.state, detail.paused_by.as_deref()), (RouteState::Paused, Some("ada")));
    assert_eq!((detail.status.delivered, detail.status.due), (2, 2));
    assert!(s.desk().resume("all", &actor()).await.unwrap());
    assert!(!s.desk().resume("all", &actor()).await.unwrap());
    assert_eq!(worker.drain().await, names("a", 3..=4));
    let actions: Vec<String> = s.desk().actions(None, 10).await.unwrap().into_iter().map(|row| row.action).collect();
    assert_eq!(actions, ["route.resume", "route.pause"], "newest first, and only what changed something");
}

pub async fn acting_on_a_route_that_is_not_there_says_so<H: StoreHarness>(s: &Bench<H>) {
    let desk = s.desk();
    let errors = [
        desk.pause("nope", &actor()).await.unwrap_err(),
        desk.resume("nope", &actor()).await.unwrap_err(),
        desk.forget("nope", &actor()).await.unwrap_err(),
        desk.unblock("nope", "a", &actor()).await.unwrap_err(),
        desk.skip_head("nope", "a", &actor()).await.unwrap_err(),
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
    let error = s.desk().forget("all", &actor()).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    worker.source.release().await.unwrap();
    s.desk().forget("all", &actor()).await.unwrap();
    assert!(s.desk().routes().await.unwrap().is_empty());
    assert!(s.dead().await.is_empty(), "its deliveries are gone with it");
    assert!(s.desk().audit().await.unwrap().is_empty());
    assert_eq!(s.serve(&route()).await.drain().await, names("a", 1..=3), "registered again it starts anew");
}

pub async fn a_route_is_forgotten_once_its_relay_is_dead<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    assert!(s.desk().forget("all", &actor()).await.is_err());
    s.pass(LEASE + SECOND);
    s.desk().forget("all", &actor()).await.unwrap();
    assert!(s.desk().routes().await.unwrap().is_empty());
}

pub async fn what_a_relay_says_of_its_route_is_shown<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    let health = postroom_core::RouteHealth { state: RouteState::BreakerOpen, note: "connection refused".to_owned() };
    worker.source.renew(&health).await.unwrap();
    let status = s.detail("all").await.status;
    assert_eq!((status.state, status.note.as_str()), (RouteState::BreakerOpen, "connection refused"));
    s.pass(LEASE + SECOND);
    assert_eq!(s.detail("all").await.status.state, RouteState::Orphan, "the dead say nothing");
}

pub async fn tokens_are_made_listed_and_revoked<H: StoreHarness>(s: &Bench<H>) {
    crate::tokens::made_listed_and_revoked(&*s.desk()).await;
}
