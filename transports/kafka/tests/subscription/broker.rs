//! What a broker of Kafka does: it takes messages up to a size, and sometimes it says nothing at all.

use nix::sys::signal::Signal;
use postroom_conformance::subscriptions::{Behaviour, Bench, Harness, SqliteEffects};
use postroom_conformance::transports::until;

use crate::subscription::place::{Own, Shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_without_room_for_its_reason_is_published_as_it_was() {
    const MOST: usize = 2000;
    let bench = Bench::<Shared, SqliteEffects>::with(10).await;
    bench.harness.make_dead_for(MOST).await;
    bench.script.behave("e-bad", Behaviour::Refuse);
    // With what is around a batch it is smaller than that by less than the reasons take.
    let body = format!(r#"{{"event_id":"e-bad","padding":"{}"}}"#, "x".repeat(MOST - 150));
    bench.harness.send_nameless(&body).await;
    let running = bench.run();
    let dead = bench.until_dead(1).await;
    bench.finish(running).await;
    assert_eq!((dead[0].header("postroom-failure-code"), &dead[0].body), ("", &body));
}

/// Its offset cannot be committed, and the group cannot be left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_says_nothing_holds_up_no_stop() {
    let bench = Bench::<Own, SqliteEffects>::new().await;
    bench.script.behave("e-1", Behaviour::Hold);
    bench.send(&["e-1"]).await;
    let running = bench.run();
    until("the handler to run", || async { bench.script.held() == 1 }).await;
    bench.harness.signal(Signal::SIGSTOP).await;
    bench.script.open_gate();
    bench.until_seen("the acknowledgement", |seen| &seen.acked, 1).await;
    running.stop().await;
}
