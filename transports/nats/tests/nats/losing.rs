//! What gets lost on the way, and what arrives twice.

use std::collections::HashSet;

use nix::sys::signal::Signal;
use postroom_conformance::transports::{Post, until};
use postroom_core::{Event, FailureKind};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, OwnServer, Servers, brokers};

use crate::nats::streams::{LONG, SHORT, Stream, event, events, failure, post, receipt};

/// Delivers in batches and again what was unavailable, while `trouble` is made once.
async fn deliver_through(post: &mut Post, events: &[Event], trouble: impl AsyncFnOnce()) {
    let (mut trouble, mut left) = (Some(trouble), Vec::new());
    for batch in events.chunks(events.len() / 10) {
        post.deliver(batch).await;
        if let Some(trouble) = trouble.take() {
            trouble().await;
        }
        for (id, outcome) in post.outcomes().await {
            if let Err(failure) = outcome {
                assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
                left.push(event(&id));
            }
        }
    }
    post.deliver_until_ok(&left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_copy_is_thrown_away_inside_the_duplicate_window_and_stored_after_it() {
    let window = std::time::Duration::from_secs(1);
    let stream = Stream::with(|config| config.duplicate_window = window).await;
    let mut post = post(stream.options(Servers::find().port("nats"), LONG));
    assert_eq!(receipt(&mut post, "e-1").await, format!("{}@1", stream.name));
    assert_eq!(receipt(&mut post, "e-1").await, format!("{}@1 (duplicate)", stream.name));
    assert_eq!(stream.ids().await, ["e-1"]);
    // Every copy asks whether the window is over; it is not prolonged by that.
    while receipt(&mut post, "e-1").await.ends_with("(duplicate)") {}
    assert_eq!(stream.ids().await, ["e-1", "e-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_is_lost_does_not_make_a_second_copy() {
    let stream = Stream::new().await;
    let proxy = FaultProxy::to(Servers::find().port("nats")).await;
    let mut post = post(stream.options(proxy.port(), LONG));
    receipt(&mut post, "e-1").await;
    // Whatever the server says from here on vanishes, also that the connection ends.
    proxy.set(Mode::HalfClose).await;
    assert_eq!(failure(&mut post, "e-2").await.kind, FailureKind::Unavailable);
    proxy.set(Mode::Pass).await;
    post.deliver_until_ok(&[event("e-2")]).await;
    assert_eq!(stream.ids().await, ["e-1", "e-2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_given_up_and_everything_is_sent_again() {
    let stream = Stream::new().await;
    let proxy = FaultProxy::to(Servers::find().port("nats")).await;
    let mut post = post(stream.options(proxy.port(), SHORT));
    post.deliver_until_ok(&[event("e-0")]).await;
    proxy.set(Mode::Hold).await;
    post.deliver(&events("held", 500)).await;
    for (id, outcome) in post.outcomes().await {
        let failure = outcome.expect_err("nobody has answered");
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "nats.timeout"), "{id}");
    }
    proxy.set(Mode::Pass).await;
    post.deliver_until_ok(&events("held", 500)).await;
    assert_eq!(stream.messages().await, 501);
    post.close().await;
    until("nothing to run after the close", async || proxy.counts().open() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_restarted_while_events_are_published_gets_each_of_them_once() {
    let server = OwnServer::start(&brokers::Nats).expect("a server");
    let stream = Stream::on(server.site.port, |_| {}).await;
    let mut post = post(stream.options(server.site.port, LONG));
    let events = events("e", 5000);
    deliver_through(&mut post, &events, async || {
        server.stop().expect("it stops");
        server.resume().expect("it starts");
    })
    .await;
    let ids = stream.ids().await;
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (events.len(), events.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_in_lame_duck_mode_is_left_and_its_successor_gets_everything_once() {
    let server = OwnServer::start(brokers::NatsWith::lines("lame_duck_grace_period: \"1s\"")).expect("a server");
    let proxy = FaultProxy::to(server.site.port).await;
    let stream = Stream::on(server.site.port, |_| {}).await;
    let mut post = post(stream.options(proxy.port(), LONG));
    let events = events("e", 5000);
    deliver_through(&mut post, &events[..4000], async || {
        // What `nats-server --signal ldm` sends.
        server.signal(Signal::SIGUSR2).expect("it is there");
        // It stays for minutes, but not for us.
        until("the connection to be left", async || proxy.counts().ended >= 1).await;
        server.stop().expect("it stops");
        server.resume().expect("it starts");
    })
    .await;
    post.deliver_until_ok(&events[4000..]).await;
    let ids = stream.ids().await;
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (events.len(), events.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_link_does_under_load_only_what_the_stream_has_is_reported_as_delivered() {
    let stream = Stream::new().await;
    let proxy = FaultProxy::to(Servers::find().port("nats")).await;
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
        assert!(stream.messages().await >= settled.len() as u64, "reported as delivered, and not there");
    }
    let counts = proxy.counts();
    assert!(counts.cuts + counts.half_closes >= 6, "the link was never cut: {counts:?}");
    let ids = stream.ids().await;
    assert_eq!((ids.len(), settled.len()), (6000, 6000), "one stored message for each that was settled");
    assert!(ids.iter().all(|id| settled.contains(id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_not_published_later_by_a_client_that_comes_back() {
    let server = OwnServer::start(&brokers::Nats).expect("a server");
    let proxy = FaultProxy::to(server.site.port).await;
    let stream = Stream::on(server.site.port, |_| {}).await;
    let mut post = post(stream.options(proxy.port(), LONG));
    post.deliver_until_ok(&[event("e-0")]).await;
    // The server reads nothing any more, so that most of a large batch stays inside the client.
    server.signal(Signal::SIGSTOP).expect("it is there");
    let large = |n: usize| event(&format!("large-{n}")).bytes("text/plain", vec![b'x'; 200_000]);
    post.deliver(&(0..100).map(large).collect::<Vec<_>>()).await;
    proxy.until(|counts| counts.to_server > 1_000_000).await;
    proxy.set(Mode::Reset).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes.values().all(Result::is_err));
    proxy.set(Mode::Pass).await;
    server.signal(Signal::SIGCONT).expect("it is there");
    // A new connection works; of the old one at most what the server's own buffers held has come through.
    post.deliver_until_ok(&[event("e-1")]).await;
    let stored = stream.messages().await;
    assert!(stored < 90, "{stored} messages");
    until("the old client to have ended", async || proxy.counts().open() == 1).await;
    assert_eq!(stream.messages().await, stored);
}
