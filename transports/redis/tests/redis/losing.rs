//! What gets lost on the way: reported as such, sent again, never reported as delivered.

use std::collections::HashSet;

use nix::sys::signal::Signal;
use postroom_conformance::transports::until;
use postroom_core::{Event, FailureKind};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, OwnServer, brokers};

use crate::streams::{LONG, SHORT, Stream, ask, event, events, failure, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_link_does_under_load_only_what_the_stream_has_is_reported_as_delivered() {
    let stream = Stream::new();
    let proxy = FaultProxy::to(stream.port).await;
    let mut post = post(stream.options(proxy.port(), LONG));
    let (mut left, mut settled, mut cuts) = (events("e", 6000), HashSet::new(), 0);
    while !left.is_empty() {
        if cuts < 12 {
            let fault = if cuts % 3 == 2 { Mode::HalfClose } else { Mode::CutAfter(20_000 + cuts * 37_411) };
            proxy.play(vec![fault, Mode::Pass]).await;
            cuts += 1;
        }
        let batch: Vec<Event> = left.drain(..left.len().min(1500)).collect();
        post.deliver(&batch).await;
        for (id, outcome) in post.outcomes().await {
            match outcome {
                Ok(_) => assert!(settled.insert(id), "settled twice"),
                Err(failure) => {
                    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
                    left.push(event(&id));
                }
            }
        }
        let there: HashSet<String> = stream.ids().await.into_iter().collect();
        assert!(settled.is_subset(&there), "reported as delivered, and not there");
    }
    let counts = proxy.counts();
    assert!(counts.cuts + counts.half_closes >= 6, "the link was never cut: {counts:?}");
    assert_eq!(settled.len(), 6000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_given_up_and_everything_is_sent_again() {
    let server = OwnServer::start(&brokers::Redis).expect("a server");
    let stream = Stream::on(server.site.port);
    let proxy = FaultProxy::to(stream.port).await;
    let mut post = post(stream.options(proxy.port(), SHORT));
    post.deliver_until_ok(&[event("e-0")]).await;
    server.signal(Signal::SIGSTOP).expect("it is there");
    post.deliver(&events("held", 500)).await;
    for (id, outcome) in post.outcomes().await {
        let failed = outcome.expect_err("nobody has answered");
        assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "redis.timeout"), "{id}");
    }
    assert_eq!(failure(&mut post, "e-1").await.code, "redis.unreachable", "silent from the start");
    server.signal(Signal::SIGCONT).expect("it is there");
    post.deliver_until_ok(&events("held", 500)).await;
    let there: HashSet<String> = stream.ids().await.into_iter().collect();
    assert!((0..500).all(|n| there.contains(&format!("held-{n}"))));
    until("those given up to have ended", async || proxy.counts().open() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_while_nobody_waits_is_replaced_at_the_next_delivery() {
    let stream = Stream::new();
    let proxy = FaultProxy::to(stream.port).await;
    let mut post = post(stream.options(proxy.port(), LONG));
    post.deliver_until_ok(&[event("e-0")]).await;
    proxy.play(vec![Mode::Reset, Mode::Pass]).await;
    proxy.until(|counts| counts.resets == 1).await;
    post.deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(proxy.counts().accepted, 2, "one connection after the other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_restarted_while_events_are_sent_loses_none_of_them() {
    let server = OwnServer::start(&brokers::Redis).expect("a server");
    let stream = Stream::on(server.site.port);
    let mut post = post(stream.options(stream.port, LONG));
    let events = events("e", 5000);
    post.deliver(&events).await;
    server.stop().expect("it stops");
    server.resume().expect("it starts");
    let mut left = Vec::new();
    for (id, outcome) in post.outcomes().await {
        if let Err(failed) = outcome {
            assert_eq!(failed.kind, FailureKind::Unavailable, "{failed:?}");
            left.push(event(&id));
        }
    }
    post.deliver_until_ok(&left).await;
    let there: HashSet<String> = stream.ids().await.into_iter().collect();
    assert_eq!(there.len(), events.len());
    let () = ask(stream.port, "FLUSHALL").await;
}
