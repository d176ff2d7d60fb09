//! The suite every subscription passes, on streams of the shared server, and what only JetStream does.

#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

mod outage;
mod place;

use std::time::Duration;

use async_nats::HeaderMap;
use postroom_conformance::Log;
use postroom_conformance::changed;
use postroom_conformance::subscriptions::{Behaviour, Bench, Harness, SqliteEffects};
use postroom_conformance::transports::until;
use postroom_consumer::Subscription;
use postroom_nats::NatsSubscription;
use tracing_subscriber::util::SubscriberInitExt;

use crate::subscription::place::{Shared, UNLIMITED};

mod on_postgres {
    use postroom_conformance::subscriptions::PostgresEffects;

    postroom_conformance::subscription_suite!(
        crate::subscription::place::Shared, PostgresEffects: once, failing, stopping, outages, silence, cut, prefetch, aborting
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_our_hands_for_long_is_not_given_to_another() {
    let bench = Bench::<Shared, SqliteEffects>::new().await;
    bench.script.behave("e-1", Behaviour::Hold);
    bench.send(&["e-1"]).await;
    let running = bench.run();
    until("the handler to run", || async { !bench.script.runs("e-1").is_empty() }).await;
    // Only by the server's clock can be told whether it still waits: more than twice as long as it would.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let info = bench.harness.consumer().await.unwrap();
    assert_eq!((info.num_ack_pending, info.num_redelivered), (1, 0));
    bench.script.open_gate();
    bench.until_effects(&["e-1"]).await;
    bench.finish(running).await;
    assert_eq!(bench.script.begun()[0].deliveries, Some(1));
}

#[tokio::test]
async fn a_consumer_that_would_read_its_own_dead_is_refused() {
    let shared = Shared::start(1).await;
    let log = Log::default();
    let _heard = tracing_subscriber::fmt().with_writer(log.clone()).finish().set_default();
    let options = changed(shared.options(), |o| o.dead_subject = format!("{}.dead", shared.name));
    let subscription = NatsSubscription::new(options).unwrap();
    let reading = subscription.next();
    let said = until("a refusal in the log", || async { log.text().contains("would come to it as") });
    tokio::select! { _ = reading => panic!("nothing can come"), () = said => {} }
}

/// As large as the server takes, or as the stream of the dead does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_without_room_for_its_reason_is_published_as_it_was() {
    // What is around them: `NATS/1.0`, a colon with a space, and three ends of lines.
    let (name, id) = ("x-event-id", "e-bad");
    let around = name.len() + id.len() + 16;
    for by_stream in [false, true] {
        let bench = Bench::<Shared, SqliteEffects>::with(1).await;
        let Shared { jetstream, name: stream, .. } = &bench.harness;
        let most = if by_stream { 1000 } else { jetstream.client().max_payload() };
        bench.harness.make_dead_for(if by_stream { i32::try_from(most).unwrap() } else { UNLIMITED }).await;
        bench.script.behave(id, Behaviour::Refuse);
        let body = "x".repeat(most - around);
        let mut headers = HeaderMap::new();
        headers.insert(name, id);
        let sent = jetstream.publish_with_headers(format!("{stream}.x"), headers, body.clone().into()).await.unwrap();
        sent.await.unwrap();
        let running = bench.run();
        let dead = bench.until_dead(1).await;
        bench.finish(running).await;
        assert_eq!((dead[0].header(name), dead[0].header("postroom-failure-code")), (id, ""));
        assert_eq!(dead[0].body, body);
    }
}
