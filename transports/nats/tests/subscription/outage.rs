//! Servers that are away for longer than the client tries by itself.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use nkeys::KeyPair;
use postroom_conformance::Log;
use postroom_conformance::changed;
use postroom_conformance::subscriptions::{Behaviour, Bench, Harness, SqliteEffects};
use postroom_conformance::transports::until;
use postroom_consumer::{Arrival, Subscription};
use postroom_core::{Delays, RetryPolicy};
use postroom_nats::{Login, NatsSubscription};
use postroom_testbed::proxy::Mode;
use tempfile::TempDir;
use tracing_subscriber::util::SubscriberInitExt;

use crate::subscription::place::{DURABLE, Shared};

async fn until_said(log: &Log, words: &str) {
    until(&format!("{words:?} in the log"), || async { log.text().contains(words) }).await;
}

#[tokio::test]
async fn an_outage_is_told_once_and_the_login_is_read_again_after_it() {
    let shared = Shared::start(1).await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("user.creds");
    let seed = KeyPair::new_user().seed().unwrap();
    // The shared server asks for none, so that any will do.
    let good = format!(
        "-----BEGIN NATS USER JWT-----\nx.y.z\n------END NATS USER JWT------\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    std::fs::write(&file, &good).unwrap();
    let log = Log::default();
    let _heard = tracing_subscriber::fmt().with_writer(log.clone()).finish().set_default();
    let options = changed(shared.options(), |o| o.login = Login::CredentialsFile(file.clone()));
    let subscription = NatsSubscription::new(options).unwrap();
    let story = async {
        until("a request", || async { shared.consumer().await.is_some_and(|info| info.num_waiting == 1) }).await;
        shared.proxy.set(Mode::Refuse).await;
        until_said(&log, "nats.disconnected").await;
        std::fs::write(&file, "rotten").unwrap();
        until_said(&log, "nats.login").await;
        std::fs::write(&file, &good).unwrap();
        shared.proxy.set(Mode::Pass).await;
        shared.send_nameless("{}").await;
    };
    let (arrival, ()) = tokio::join!(subscription.next(), story);
    assert!(matches!(arrival, Arrival::Message(_)), "it goes on");
    assert_eq!(log.text().matches("nats.disconnected").count(), 1, "{}", log.text());
    assert!(!log.text().contains(&seed));
}

/// The only place is taken by a message that nobody can dead-letter, so there is nothing to ask the server for.
#[tokio::test]
async fn a_message_from_before_an_outage_is_dead_lettered_through_the_next_connection() {
    let log = Log::default();
    let _heard = tracing_subscriber::fmt().with_writer(log.clone()).finish().set_default();
    let bench = Bench::<Shared, SqliteEffects>::with(1).await;
    bench.script.behave("e-bad", Behaviour::Refuse);
    bench.send(&["e-bad"]).await;
    let running = bench.run();
    bench.until_seen("a refusal", |seen| &seen.refused, 1).await;
    bench.harness.proxy.set(Mode::Refuse).await;
    until_said(&log, "nats.unreachable").await;
    bench.harness.make_dead().await;
    bench.harness.proxy.set(Mode::Pass).await;
    bench.until_dead(1).await;
    bench.finish(running).await;
}

/// More is to be given back than the client has room for, and nobody takes it from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hears_nothing_holds_up_no_stop() {
    const MANY: u16 = 3000;
    let mut bench = Bench::<Shared, SqliteEffects>::with(MANY).await;
    // Ten times that, for so many tries, is longer than a test waits for anything.
    bench.harness.timeout = Duration::from_secs(8);
    let delays = Delays::Schedule(vec![Duration::from_hours(1)]);
    bench.options.retry = RetryPolicy::default().delays(delays).jitter(0.0).attempts(2);
    bench.script.behave("e-0", Behaviour::Fail(1));
    let Shared { jetstream, name, proxy, .. } = &bench.harness;
    // The server's own limit of what is in somebody's hands is a thousand.
    let config = pull::Config {
        durable_name: Some(DURABLE.to_owned()),
        ack_policy: AckPolicy::Explicit,
        max_ack_pending: i64::from(MANY),
        ..pull::Config::default()
    };
    jetstream.get_stream(name).await.unwrap().create_consumer(config).await.unwrap();
    for n in 0..MANY {
        let mut headers = HeaderMap::new();
        headers.insert("x-event-id", format!("e-{n}"));
        headers.insert("x-aggregate-id", "one lane");
        let sent = jetstream.publish_with_headers(format!("{name}.x"), headers, "{}".into()).await.unwrap();
        sent.await.unwrap();
    }
    let running = bench.run();
    bench.until_seen("all in our hands", |seen| &seen.arrived, usize::from(MANY)).await;
    proxy.play(vec![Mode::Reset, Mode::Hold]).await;
    proxy.until(|counts| counts.accepted >= 2).await;
    running.stop().await;
}
