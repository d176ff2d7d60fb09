//! Clocks that are set back or forward: a lease ends all the same, and only of relays that are dead.
//!
//! What a jump of the clock leaves is that all that was written before lies ahead, or far behind: the cases move that.

use std::time::Duration;

use postroom_core::{Failure, RouteSpec, Verdict};

use super::bench::{Bench, LEASE, delivered, ids};

const HOUR: i64 = 3_600;

/// Moves the heartbeat of a relay by so many seconds.
async fn heartbeat(bench: &Bench, name: &str, seconds: i64) {
    let (relay, by) = match bench.executor.dialect() {
        postroom_adopted::Dialect::Postgres => ("postroom.relay", format!("interval '{seconds} s'")),
        postroom_adopted::Dialect::Sqlite => ("postroom_relay", format!("{seconds} * 1000000")),
    };
    let moved = format!("seen_at = seen_at + {by}, alive_until = alive_until + {by}");
    bench.execute(&format!("update {relay} set {moved} where boot = '{name}-boot'")).await;
}

/// Moves the times of all claims by so many seconds.
pub(super) async fn claims(bench: &Bench, seconds: i64) {
    let sql = match bench.executor.dialect() {
        postroom_adopted::Dialect::Postgres => {
            format!("update public.outbox set updated_at = updated_at + interval '{seconds} s'")
        }
        postroom_adopted::Dialect::Sqlite => {
            format!("update outbox set updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '{seconds:+} seconds')")
        }
    };
    bench.execute(&sql).await;
}

pub async fn a_dead_relay_of_before_the_clock_was_set_back_holds_nothing(bench: &Bench) {
    bench.insert(2, None).await;
    let (dead, next) = (bench.worker("a").await, bench.worker("b").await);
    assert_eq!(dead.take_all().await.len(), 2);
    assert!(next.take_all().await.is_empty());
    heartbeat(bench, "a", HOUR).await;
    assert_eq!(ids(&next.take_all().await), ["row-0", "row-1"]);
    let alive = bench.admin.relays().await.unwrap().into_iter().filter(|relay| relay.alive);
    assert_eq!(alive.map(|relay| relay.relay).collect::<Vec<_>>(), ["b"]);
    // Nor does it keep others from changing the route.
    next.0.release().await.unwrap();
    let changed = RouteSpec { to: "elsewhere".to_owned(), ..RouteSpec::new("orders") };
    assert_eq!(ids(&bench.worker_of("c", changed).await.take_all().await), ["row-0", "row-1"]);
}

pub async fn a_relay_that_lives_on_when_the_clock_is_set_back_keeps_the_table(bench: &Bench) {
    bench.insert(2, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take_all().await;
    heartbeat(bench, "a", i64::try_from(LEASE.as_secs()).unwrap() / 2).await;
    assert!(second.take_all().await.is_empty(), "a little ahead is alive");
    heartbeat(bench, "a", HOUR).await;
    first.renew().await;
    assert!(second.take_all().await.is_empty(), "it has told the new time");
    assert!(first.settle(taken.iter().map(|delivery| (delivery, delivered()))).await.lost.is_empty());
}

pub async fn a_clock_set_forward_ends_the_lease_and_what_its_holder_still_writes_is_void(bench: &Bench) {
    bench.insert(1, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take_all().await;
    heartbeat(bench, "a", -HOUR).await;
    let again = second.take_all().await;
    assert_eq!(ids(&again), ["row-0"]);
    let died = Verdict::Dead { attempts: 1, failure: Failure::permanent("test.bad", "it's bad"), published: true };
    assert_eq!(first.settle([(&taken[0], died)]).await.lost.len(), 1);
    second.settle([(&again[0], delivered())]).await;
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.delivered, status.dead), (1, 0));
}

pub async fn a_claim_of_before_the_clock_was_set_back_is_anybodys(bench: &Bench) {
    bench.insert(1, None).await;
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    let taken = first.take_all().await;
    claims(bench, 30).await;
    assert!(second.take_all().await.is_empty(), "a little ahead it holds");
    claims(bench, HOUR).await;
    first.renew().await;
    assert!(second.take_all().await.is_empty(), "a relay that lives tells the new time");
    claims(bench, HOUR).await;
    let again = second.take_all().await;
    assert_eq!(ids(&again), ["row-0"]);
    first.settle([(&taken[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "claimed", "the first claim is over");
    second.settle([(&again[0], delivered())]).await;
    assert_eq!(bench.seen("row-0").await, "done");
}

pub async fn relays_that_have_been_gone_for_a_day_are_forgotten(bench: &Bench) {
    let (first, second) = (bench.worker("a").await, bench.worker("b").await);
    drop((first, bench.worker("c").await));
    assert!(second.take_all().await.is_empty());
    let day = Duration::from_hours(25).as_secs();
    for name in ["a", "c"] {
        heartbeat(bench, name, -i64::try_from(day).unwrap()).await;
    }
    heartbeat(bench, "b", -2 * HOUR).await;
    bench.admin.prune(&postroom_core::Retention::default(), false).await.unwrap();
    let left: Vec<String> = bench.admin.relays().await.unwrap().into_iter().map(|relay| relay.relay).collect();
    assert_eq!(left, ["b"], "what was alive today is still shown");
}
