//! Who owns a lane: one relay at a time, by the store's clock.

use postroom_core::{Budget, RouteHealth};

use super::bench::{
    ALMOST_LEASE, LEASE, SECOND, event, events, ids, is_lost, lanes, names, of_key, retry, returned, route, sorted,
};
use super::{Bench, StoreHarness};

fn spread(n: u32) -> Vec<postroom_core::Event> {
    (1..=n).map(|n| event(&format!("k{n}"), 1)).collect()
}

pub async fn the_only_relay_owns_every_lane<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    assert_eq!(worker.look().await.ownership.lanes, s.harness.lanes());
    let detail = s.detail("all").await;
    assert_eq!(detail.lanes.len(), s.harness.lanes());
    assert!(detail.lanes.iter().all(|lane| lane.holder.as_deref() == Some("relay")));
    let relays = s.admin().relays().await.unwrap();
    assert_eq!(relays.len(), 1);
    assert!(relays[0].alive && relays[0].lanes == s.harness.lanes() as u64);
    assert_eq!(relays[0].routes, ["all"]);
}

pub async fn a_renewal_says_how_long_it_holds<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    let lease = worker.source.renew(&RouteHealth::running()).await.unwrap();
    assert_eq!(lease.valid_for, LEASE);
    assert_eq!(lease.ownership.lanes, s.harness.lanes());
}

pub async fn a_standby_takes_over_when_the_lease_ends_and_not_before<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    let active = s.serve_as("active", &route()).await.unwrap();
    let taken = active.take().await;
    let standby = s.serve_as("standby", &route()).await.unwrap();
    assert_eq!(taken.len(), 3);
    active.deliver(&taken[..1]).await;
    s.pass(ALMOST_LEASE);
    standby.renew().await;
    assert!(standby.take().await.is_empty(), "the lease is still good");
    s.pass(2 * SECOND);
    let take = standby.source.take(Budget { rows: 100, bytes: 1 << 20 }).await.unwrap();
    assert!(take.taken_over > 0, "it was not given up");
    let rest = take.deliveries;
    assert_eq!(ids(&rest), names("a", 2..=3));
    let again = standby.source.take(Budget { rows: 100, bytes: 1 << 20 }).await.unwrap();
    assert_eq!(again.taken_over, 0, "once");
    standby.deliver(&rest).await;
    let ownership = active.renew().await;
    assert!(is_lost(&ownership, &taken), "{ownership:?}");
}

/// e2 was on its way when its owner died, e1 had failed, e3 stands parked behind it. A small budget, filled by other
/// due rows, must not let e3 come before e2.
pub async fn what_a_dead_relay_had_taken_comes_before_what_stands_behind_it<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[events("a", 1..=2), events("b", 1..=1)].concat()).await;
    let first = s.serve_as("first", &route()).await.unwrap();
    let taken = first.take().await;
    for delivery in taken.iter().filter(|d| d.event.id == "a-1" || d.event.id == "b-1") {
        first.retry(delivery, SECOND).await;
    }
    s.append(&events("a", 3..=3)).await;
    assert!(first.take().await.is_empty(), "a-3 is parked behind a-1");
    s.pass(LEASE + SECOND);
    let next = s.serve_as("next", &route()).await.unwrap();
    let mut arrived = Vec::new();
    while arrived.len() < 4 {
        let taken = next.source.take(Budget { rows: 1, bytes: 1 << 20 }).await.unwrap().deliveries;
        assert!(!taken.is_empty(), "only {arrived:?} came");
        next.deliver(&taken).await;
        arrived.extend(ids(&taken));
    }
    assert_eq!(of_key(&arrived, "a"), names("a", 1..=3));
}

pub async fn a_standby_is_told_no_due_times_of_lanes_it_cannot_take<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let active = s.serve_as("active", &route()).await.unwrap();
    active.retry(&active.take_one().await, SECOND).await;
    let standby = s.serve_as("standby", &route()).await.unwrap();
    s.pass(2 * SECOND);
    let take = standby.look().await;
    assert_eq!((take.ownership.lanes, take.next_due), (0, None), "it would ask again and again");
}

pub async fn a_renewed_lease_is_not_taken<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=1)).await;
    let active = s.serve_as("active", &route()).await.unwrap();
    let taken = active.take().await;
    let standby = s.serve_as("standby", &route()).await.unwrap();
    for _ in 0..5 {
        s.pass(LEASE / 2);
        assert!(active.renew().await.lost.is_empty());
        standby.renew().await;
        assert!(standby.take().await.is_empty());
    }
    assert!(active.deliver(&taken).await.lost.is_empty());
    assert_eq!(s.detail("all").await.status.delivered, 1);
}

pub async fn a_heartbeat_on_one_route_keeps_the_lanes_of_all<H: StoreHarness>(s: &Bench<H>) {
    let relay = s.relay("both");
    let open = async |name: &str| super::Worker::open(s.store(), &relay, &super::bench::named(name)).await.unwrap();
    let (one, two) = (open("one").await, open("two").await);
    s.append(&events("a", 1..=1)).await;
    let taken = two.take().await;
    let standby = s.serve_as("standby", &super::bench::named("two")).await.unwrap();
    s.pass(ALMOST_LEASE);
    one.renew().await;
    standby.renew().await;
    s.pass(2 * SECOND);
    assert!(standby.take().await.is_empty());
    assert!(two.deliver(&taken).await.lost.is_empty());
}

pub async fn a_released_lane_goes_over_at_once_with_nothing_repeated<H: StoreHarness>(s: &Bench<H>) {
    s.append(&spread(20)).await;
    let first = s.serve_as("first", &route()).await.unwrap();
    let taken = first.take().await;
    assert_eq!(taken.len(), 20);
    first.deliver(&taken[..12]).await;
    first.give_back(&taken[12..]).await;
    first.source.release().await.unwrap();
    let second = s.serve_as("second", &route()).await.unwrap();
    let mut came = second.drain().await;
    assert_eq!(came.len(), 8);
    came.extend(ids(&taken[..12]));
    assert_eq!(sorted(came), sorted(ids(&taken)));
}

pub async fn what_was_not_settled_before_a_release_is_the_next_owners<H: StoreHarness>(s: &Bench<H>) {
    s.append(&spread(10)).await;
    let first = s.serve_as("first", &route()).await.unwrap();
    let taken = first.take().await;
    first.source.release().await.unwrap();
    let second = s.serve_as("second", &route()).await.unwrap();
    assert_eq!(sorted(second.drain().await), sorted(ids(&taken)));
    assert!(is_lost(&first.deliver(&taken).await, &taken), "the first has nothing more to say");
}

pub async fn a_release_can_be_repeated<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    worker.source.release().await.unwrap();
    worker.source.release().await.unwrap();
    assert!(s.detail("all").await.lanes.iter().all(|lane| lane.holder.is_none()));
}

pub async fn two_relays_never_own_the_same_lane_at_once<H: StoreHarness>(s: &Bench<H>) {
    let (one, two) = (s.serve_as("one", &route()).await.unwrap(), s.serve_as("two", &route()).await.unwrap());
    let mut came = Vec::new();
    for round in 1..=12 {
        let batch: Vec<_> = (1..=30).map(|n| event(&format!("k{n}"), round)).collect();
        s.append(&batch).await;
        let (a, b) = (one.look().await, two.look().await);
        assert!(a.ownership.lanes + b.ownership.lanes <= s.harness.lanes(), "{:?} {:?}", a.ownership, b.ownership);
        let shared: Vec<_> = lanes(&a.deliveries)
            .into_iter()
            .filter(|l| lanes(&b.deliveries).iter().any(|m| m.lane == l.lane))
            .collect();
        assert!(shared.is_empty(), "both have {shared:?}");
        for (worker, take) in [(&one, &a), (&two, &b)] {
            came.extend(ids(&take.deliveries));
            assert!(worker.deliver(&take.deliveries).await.lost.is_empty());
        }
    }
    for worker in [&one, &two] {
        came.extend(worker.drain().await);
    }
    came.extend(one.drain().await);
    assert_eq!(came.len(), 12 * 30, "each exactly once");
    for n in 1..=30 {
        let key = format!("k{n}");
        assert_eq!(of_key(&came, &key), names(&key, 1..=12));
    }
}

pub async fn several_lanes_are_shared_evenly_and_handed_over_gently<H: StoreHarness>(s: &Bench<H>) {
    let total = s.harness.lanes();
    let one = s.serve_as("one", &route()).await.unwrap();
    s.append(&spread(60)).await;
    let taken = one.take().await;
    let two = s.serve_as("two", &route()).await.unwrap();
    assert_eq!(two.look().await.ownership.lanes, 0, "everything is in the first one's hands");
    let more: Vec<_> = (1..=60).map(|n| event(&format!("k{n}"), 2)).collect();
    s.append(&more).await;
    let second = one.look().await;
    let recalled = second.ownership.recalled;
    assert!(lanes(&second.deliveries).iter().all(|lane| !recalled.contains(lane)), "nothing new of a recalled lane");
    assert!(one.deliver(&[taken.clone(), second.deliveries.clone()].concat()).await.lost.is_empty());
    let mut came = ids(&taken);
    came.extend(ids(&second.deliveries));
    for _ in 0..2 {
        came.extend(one.drain().await);
        came.extend(two.drain().await);
    }
    let all = spread(60).into_iter().chain(more).map(|event| event.id).collect();
    assert_eq!(sorted(came), sorted(all), "each came once");
    let (a, b) = (one.look().await.ownership.lanes, two.look().await.ownership.lanes);
    assert_eq!(a + b, total);
    if total > 1 {
        assert!(!recalled.is_empty(), "the first was asked to give lanes up");
        assert!(a.abs_diff(b) <= 1, "{a} and {b}");
    }
}

pub async fn a_relay_that_comes_back_under_its_name_does_not_wait_for_itself_for_ever<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let crashed = s.serve_as("same", &route()).await.unwrap();
    crashed.take().await;
    let restarted = s.serve_as("same", &route()).await.unwrap();
    assert!(restarted.take().await.is_empty(), "two of one name may be alive; the lease decides");
    s.pass(LEASE + SECOND);
    restarted.renew().await;
    assert_eq!(restarted.drain().await, names("a", 1..=2));
}

pub async fn a_silent_relay_is_shown_as_not_alive<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    worker.take().await;
    s.pass(LEASE + SECOND);
    let relays = s.admin().relays().await.unwrap();
    assert!(relays.iter().all(|relay| !relay.alive));
}

/// A drain ends when other relays have nothing left either: what is in their hands, and what waits for its time,
/// counts.
pub async fn a_route_is_drained_when_no_relay_has_anything_left<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=2)).await;
    let owner = s.serve(&route()).await;
    let taken = owner.take().await;
    let standby = s.serve_as("standby", &route()).await.unwrap();
    assert!(standby.take().await.is_empty());
    assert!(!standby.source.is_drained().await.unwrap(), "the owner has two in hand");
    owner.settle(&[retry(&taken[0], SECOND), returned(&taken[1])]).await;
    assert!(!standby.source.is_drained().await.unwrap(), "one is retrying");
    owner.source.release().await.unwrap();
    s.pass(2 * SECOND);
    assert!(!standby.source.is_drained().await.unwrap(), "both are due");
    assert_eq!(standby.drain().await, names("a", 1..=2));
    assert!(standby.source.is_drained().await.unwrap());
}
