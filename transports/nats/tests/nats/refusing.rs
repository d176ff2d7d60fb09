//! What the server refuses: whose failure it is, and that nobody else's event suffers.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::DiscardPolicy;
use futures_util::StreamExt;
use futures_util::future::join_all;
use postroom_conformance::changed;
use postroom_conformance::transports::Post;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, FailureKind, Template};
use postroom_nats::{CreateStream, Nats};
use postroom_testbed::Servers;

use crate::nats::streams::{LONG, SHORT, Stream, event, events, failure, outcome, post, receipt};

fn port() -> u16 {
    Servers::find().port("nats")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_not_there_is_named_and_gets_everything_once_it_is() {
    let stream = Stream::missing(port()).await;
    let mut post = post(stream.options(port(), LONG));
    let failed = failure(&mut post, "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.no_stream"));
    assert!(failed.error.contains(&stream.name), "{}", failed.error);
    stream.create(|_| {}).await;
    post.deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(stream.ids().await, ["e-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_only_listens_on_the_subject_is_no_stream() {
    let stream = Stream::missing(port()).await;
    let mut listener = stream.client.subscribe(format!("{}.>", stream.name)).await.expect("a subscription");
    let mut post = post(stream.options(port(), LONG));
    assert_eq!(failure(&mut post, "e-1").await.code, "nats.no_stream");
    stream.create(|_| {}).await;
    post.deliver_until_ok(&[event("e-2")]).await;
    assert_eq!(listener.next().await.expect("it hears").payload, event("e-2").payload, "the first was never sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_deleted_meanwhile_is_found_out_also_when_somebody_else_answers() {
    for (answered, timeout) in [(false, LONG), (true, SHORT)] {
        let stream = Stream::new().await;
        let mut post = post(stream.options(port(), timeout));
        receipt(&mut post, "e-1").await;
        if answered {
            let mut listener = stream.client.subscribe(format!("{}.>", stream.name)).await.expect("a subscription");
            stream.client.flush().await.expect("it is there");
            let client = stream.client.clone();
            tokio::spawn(async move {
                while let Some(heard) = listener.next().await {
                    let reply = heard.reply.expect("somebody waits");
                    client.publish(reply, "thank you".into()).await.expect("it is there");
                }
            });
        }
        stream.delete().await;
        let failed = failure(&mut post, "e-2").await;
        assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.no_stream"), "{failed:?}");
        stream.create(|_| {}).await;
        post.deliver_until_ok(&[event("e-2")]).await;
        assert_eq!(stream.ids().await, ["e-2"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_no_stream_takes_stops_only_its_own_event() {
    let stream = Stream::missing(port()).await;
    stream.create(|config| config.subjects = vec![format!("{}.parcel.*", stream.name)]).await;
    let mut post = post(stream.options(port(), LONG));
    post.deliver(&[event("a"), Event::new("letter.sent").id("stray"), event("b")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["a"].is_ok() && outcomes["b"].is_ok(), "{outcomes:?}");
    let failed = outcomes["stray"].clone().expect_err("nobody has it");
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.no_stream"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_of_another_stream_is_refused_and_not_stored_there() {
    let (stream, other) = (Stream::new().await, Stream::new().await);
    let mut options = stream.options(port(), LONG);
    options.subject = Template::parse(&format!("{}.x", other.name), &[]).expect("a template");
    let failed = failure(&mut post(options), "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.wrong_stream"));
    assert_eq!((stream.messages().await, other.messages().await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_never_acknowledges_is_refused_at_once() {
    let stream = Stream::with(|config| config.no_ack = true).await;
    let failed = failure(&mut post(stream.options(port(), LONG)), "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.wrong_stream"));
    assert_eq!(stream.messages().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_kills_no_event_and_takes_them_when_there_is_room() {
    let full = |config: &mut async_nats::jetstream::stream::Config| {
        (config.discard, config.max_messages) = (DiscardPolicy::New, 3);
    };
    let stream = Stream::with(full).await;
    let mut post = post(stream.options(port(), LONG));
    post.deliver(&events("e", 10)).await;
    let outcomes = post.outcomes().await;
    assert_eq!(outcomes.values().filter(|outcome| outcome.is_ok()).count(), 3);
    for failed in outcomes.into_values().filter_map(Result::err) {
        assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.stream_full"), "{failed:?}");
    }
    stream.delete().await;
    stream.create(|_| {}).await;
    post.deliver_until_ok(&events("e", 10)).await;
    assert_eq!(stream.messages().await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_subject_concerns_its_own_events() {
    let stream = Stream::with(|config| {
        config.discard = DiscardPolicy::New;
        (config.discard_new_per_subject, config.max_messages_per_subject) = (true, 1);
    })
    .await;
    let mut post = post(stream.options(port(), LONG));
    receipt(&mut post, "e-1").await;
    let failed = failure(&mut post, "e-2").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Transient, "nats.stream_full"), "{failed:?}");
    outcome(&mut post, Event::new("letter.sent").id("e-3")).await.expect("another subject has room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_over_a_limit_is_refused_for_good_and_alone() {
    let sized = |id: &str, bytes: usize| event(id).bytes("text/plain", vec![b'x'; bytes]);
    let server_max = 1024 * 1024;
    for (stream_max, large) in [(-1, server_max), (4096, 4096)] {
        let stream = Stream::with(|config| config.max_message_size = stream_max).await;
        let mut post = post(stream.options(port(), LONG));
        post.deliver(&[event("a"), sized("large", large), event("b"), sized("fits", large - 1024)]).await;
        let outcomes = post.outcomes().await;
        let failed = outcomes["large"].clone().expect_err("headers and body together are over it");
        assert_eq!((failed.kind, &*failed.code), (FailureKind::Permanent, "nats.too_large"), "{failed:?}");
        for id in ["a", "b", "fits"] {
            assert!(outcomes[id].is_ok(), "{id}: {:?}", outcomes[id]);
        }
        assert_eq!(stream.ids().await, ["a", "b", "fits"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_routes_into_one_stream_both_get_through() {
    let stream = Stream::new().await;
    for (route, attempt) in [("orders", 0), ("audit", 1), ("orders", 1)] {
        let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Nats, "/s");
        let options = changed(stream.options(port(), LONG), |o| o.stream_is_shared = true);
        let mut post = Post::new(Arc::new(Nats::new(route, options, encoder)));
        let receipt = receipt(&mut post, "same").await;
        assert_eq!(receipt.ends_with("(duplicate)"), (route, attempt) == ("orders", 1), "{receipt}");
    }
    assert_eq!(stream.messages().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_stream_is_created_once_as_told_and_one_that_is_there_is_left_alone() {
    let stream = Stream::missing(port()).await;
    let create = CreateStream {
        subjects: vec![format!("{}.>", stream.name)],
        replicas: 1,
        max_age: Some(Duration::from_hours(1)),
        duplicate_window: Some(Duration::from_mins(30)),
    };
    let options = changed(stream.options(port(), LONG), |o| o.create = Some(create));
    // All at once, as a fleet would. The server may name a stream a moment before it listens on its subjects.
    join_all((0..8).map(|n| {
        let mut post = post(options.clone());
        async move { post.deliver_until_ok(&[event(&format!("e-{n}"))]).await }
    }))
    .await;
    let config = stream.info().await.config;
    assert_eq!((config.max_age, config.duplicate_window), (Duration::from_hours(1), Duration::from_mins(30)));
    let other = changed(options.create.clone().expect("it is given"), |o| {
        o.max_age = None;
        o.duplicate_window = None;
    });
    receipt(&mut post(changed(options, |o| o.create = Some(other))), "e-8").await;
    assert_eq!(stream.info().await.config, config);
    assert_eq!(stream.messages().await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_cannot_be_created_says_why() {
    let (taken, stream) = (Stream::new().await, Stream::missing(port()).await);
    let create = CreateStream {
        subjects: vec![format!("{}.>", taken.name)],
        replicas: 1,
        max_age: None,
        duplicate_window: None,
    };
    let failed = failure(&mut post(changed(stream.options(port(), LONG), |o| o.create = Some(create))), "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.create"));
    assert!(failed.error.contains("overlap"), "{}", failed.error);
}
