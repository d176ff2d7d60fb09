//! What is still to come: deliveries by their state, before and after a relay has read them, and events over time.

use std::time::Duration;

use postroom_admin::Selection;
use postroom_admin::view::DeliveryRow;
use postroom_core::{Clock as _, DeliveryState, Event, Filter, RouteSpec, StartFrom};

use super::bench::{SECOND, event, events, named, route};
use super::{Bench, StoreHarness};

const WAITING: [DeliveryState; 4] =
    [DeliveryState::Due, DeliveryState::Retrying, DeliveryState::Blocked, DeliveryState::Delayed];

async fn waiting<H: StoreHarness>(s: &Bench<H>, which: &Selection) -> Vec<DeliveryRow> {
    s.admin().deliveries(&WAITING, which, 0, 100).await.unwrap()
}

/// Ids with their states, oldest first.
fn states(rows: &[DeliveryRow]) -> Vec<(&str, &str)> {
    rows.iter().map(|row| (row.id.as_str(), row.state.as_str())).collect()
}

pub async fn what_waits_is_listed_whether_a_relay_has_read_it_or_not<H: StoreHarness>(s: &Bench<H>) {
    s.admin().register(&[route()]).await.unwrap();
    let later = s.harness.clock().now() + Duration::from_hours(1);
    s.append(&events("a", 1..=2)).await;
    s.append(&[event("b", 1), event("c", 1).available_at(later)]).await;
    let unread = [("a-1", "due"), ("a-2", "due"), ("b-1", "due"), ("c-1", "delayed")];
    assert_eq!(states(&waiting(s, &Selection::default()).await), unread);

    let worker = s.serve(&route()).await;
    let taken = worker.take().await;
    assert_eq!(states(&waiting(s, &Selection::default()).await)[0], ("a-1", "due"), "it is being sent");
    let a = taken.iter().find(|one| one.event.id == "a-1").unwrap();
    worker.retry(a, 10 * SECOND).await;
    let others: Vec<_> = taken.iter().filter(|one| one.event.id == "b-1").cloned().collect();
    worker.deliver(&others).await;
    let left: Vec<_> = taken.into_iter().filter(|one| one.event.id == "a-2").collect();
    worker.give_back(&left).await;
    s.append(&events("a", 3..=3)).await;
    let rows = waiting(s, &Selection::default()).await;
    assert_eq!(
        states(&rows),
        [("a-1", "retrying"), ("a-2", "blocked"), ("c-1", "delayed"), ("a-3", "blocked")],
        "b-1 is delivered"
    );
    assert_eq!((rows[0].code.as_deref(), rows[0].attempts), (Some("test.transient"), 1));
    assert!(rows[0].due_at.is_some() && rows[2].due_at == Some(later) && rows[3].due_at.is_none());

    let of = async |states: &[DeliveryState], which: &Selection| {
        let rows = s.admin().deliveries(states, which, 0, 100).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let key = Selection { key: Some("a".to_owned()), ..Selection::default() };
    assert_eq!(of(&WAITING, &key).await, ["a-1", "a-2", "a-3"], "what of this key is still to come");
    assert_eq!(of(&[DeliveryState::Delayed], &Selection::default()).await, ["c-1"]);
    let failed = Selection { code: Some("test.transient".to_owned()), ..Selection::default() };
    assert_eq!(of(&WAITING, &failed).await, ["a-1"], "what is not read yet has not failed");
    assert!(of(&[DeliveryState::Dead], &Selection::default()).await.is_empty());
}

pub async fn what_waits_comes_page_by_page_and_each_once<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1)]).await;
    let worker = s.serve(&route()).await;
    for taken in worker.take().await {
        worker.retry(&taken, 10 * SECOND).await;
    }
    s.admin().register(&[named("other")]).await.unwrap();
    s.append(&events("c", 1..=3)).await;
    let whole = waiting(s, &Selection::default()).await;
    assert_eq!(whole.len(), 10, "five events on two routes: {whole:?}");
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let page = s.admin().deliveries(&WAITING, &Selection::default(), after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.position;
        pages.extend(page);
    }
    assert_eq!(pages, whole);
    let other = Selection { route: Some("other".to_owned()), ..Selection::default() };
    assert_eq!(waiting(s, &other).await.len(), 5);
}

pub async fn what_a_route_does_not_want_does_not_wait_for_it<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1)]).await;
    let paid = Filter::types(["order.paid"]).unwrap();
    let new = RouteSpec { start: StartFrom::Now, ..RouteSpec::new("new") };
    s.admin().register(&[named("paid").matching(paid), new]).await.unwrap();
    s.append(&[event("a", 2), Event::new("order.paid").id("a-3").key("a")]).await;
    let rows = waiting(s, &Selection::default()).await;
    let seen: Vec<_> = rows.iter().map(|row| (row.route.as_str(), row.id.as_str())).collect();
    assert_eq!(seen, [("new", "a-2"), ("new", "a-3"), ("paid", "a-3")]);
}

pub async fn retrying_deliveries_are_grouped_like_dead_ones<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("b", 1), event("a", 2)]).await;
    let worker = s.serve(&route()).await;
    for taken in worker.take().await {
        match taken.event.id.as_str() {
            "a-2" => worker.give_back(&[taken]).await,
            _ => worker.retry(&taken, 10 * SECOND).await,
        };
    }
    let groups = s.admin().delivery_groups(&[DeliveryState::Retrying], &Selection::default(), 10).await.unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let group = &groups[0];
    assert_eq!((group.count, group.keys, group.state), (2, 2, DeliveryState::Retrying));
    assert_eq!((group.code.as_deref(), group.error.as_deref()), (Some("test.transient"), Some("not now")));
    let both = [DeliveryState::Retrying, DeliveryState::Blocked];
    let groups = s.admin().delivery_groups(&both, &Selection::default(), 10).await.unwrap();
    let seen: Vec<_> = groups.iter().map(|group| (group.state.as_str(), group.count)).collect();
    assert_eq!(seen, [("retrying", 2), ("blocked", 1)]);
}

pub async fn events_are_counted_by_when_they_were_appended<H: StoreHarness>(s: &Bench<H>) {
    let minute = Duration::from_mins(1);
    let from = s.harness.clock().now();
    s.append(&events("a", 1..=3)).await;
    s.pass(10 * minute);
    s.append(&events("b", 1..=2)).await;
    let counts = async |from, interval| {
        let rows = s.admin().appended(from, interval).await.unwrap();
        assert!(rows.is_sorted_by_key(|row| row.at), "{rows:?}");
        rows.into_iter().map(|row| row.appended).collect::<Vec<_>>()
    };
    // An append may begin in one interval and end in the next.
    let by_minute = counts(from - minute, minute).await;
    assert_eq!((by_minute.iter().sum::<u64>(), by_minute.len() >= 2), (5, true), "{by_minute:?}");
    assert_eq!(counts(from + 5 * minute, minute).await.iter().sum::<u64>(), 2);
    assert!(counts(from + 60 * minute, minute).await.is_empty());
}
