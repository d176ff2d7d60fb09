//! A queue that is full says no (H-53), and a broker that closes the channel does not say because of whom.

use lapin::types::AMQPValue;
use postroom_core::FailureKind;
use postroom_testbed::Servers;

use crate::rabbitmq::fake::Fake;
use crate::rabbitmq::place::{Place, deliver_until, event, events, failure, options, post, url};

#[tokio::test]
async fn a_full_queue_refuses_for_now_and_takes_it_later() {
    let text = |text: &str| AMQPValue::LongString(text.into());
    for kind in ["classic", "quorum"] {
        let full = [
            ("x-queue-type", text(kind)),
            ("x-max-length", AMQPValue::LongInt(1)),
            ("x-overflow", text("reject-publish")),
        ];
        let place = Place::with(Servers::find().port("rabbitmq"), &full).await;
        let mut post = place.post();
        post.deliver_until_ok(&[event("first")]).await;
        // A quorum queue notices a little later that it is full, and that it is not.
        let mut refused = None;
        let mut n = 0;
        while refused.is_none() {
            post.deliver(&[event(format!("further-{n}"))]).await;
            refused = post.outcome().await.1.err();
            n += 1;
            assert!(n < 1000, "{kind}: it is never full");
        }
        let failure = refused.unwrap();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "rabbitmq.nack"), "{kind}");
        assert!(failure.error.contains(&place.name) && failure.error.contains("full"), "{}", failure.error);
        place.arrived().await;
        deliver_until(&mut post, event("later"), Result::is_ok).await;
        assert_eq!(place.arrived_ids().await.last().map(String::as_str), Some("later"), "{kind}");
        post.close().await;
    }
}

/// Everybody in doubt is sent alone once, so that it ends with the one to blame.
#[tokio::test]
async fn one_that_closes_the_channel_is_found_among_many_and_the_others_get_through() {
    let fake = Fake::start(&["e-7", "e-13"]).await;
    let mut post = post(options(&url(fake.port()), "parcels"));
    let mut left = events(20);
    let mut blamed = Vec::new();
    while !left.is_empty() {
        post.deliver(&left).await;
        let outcomes = post.outcomes().await;
        left.retain(|event| match &outcomes[&event.id] {
            Ok(_) => false,
            Err(failure) if failure.kind == FailureKind::Permanent => {
                assert_eq!(failure.code, "rabbitmq.refused");
                assert!(failure.error.contains("something is wrong"), "{}", failure.error);
                blamed.push(event.id.clone());
                false
            }
            Err(failure) => {
                assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.channel"));
                true
            }
        });
        assert!(fake.connections() < 10, "it does not come to an end");
    }
    blamed.sort();
    assert_eq!(blamed, ["e-13", "e-7"]);
    let again = failure(&mut post, event("e-7")).await;
    assert_eq!(again.code, "rabbitmq.refused", "alone it is to blame at once");
    post.close().await;
}
