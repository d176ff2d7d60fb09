//! What answers mean (H-71, H-72, H-73).

use std::time::Duration;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use postroom_core::FailureKind::{Gone, Permanent, Transient, Unavailable};
use postroom_core::{Failure, RETRY_AFTER_MAX};

use crate::receiver::{LONG, Receiver, Rule, event, failure, http, post};

async fn check(rule: Rule) -> Failure {
    let receiver = Receiver::start().await;
    receiver.rule("e-1", rule);
    let mut post = post(http(receiver.port(), LONG));
    let failure = failure(&mut post, "e-1").await;
    assert_eq!(receiver.got().len(), 1, "an answer is an answer: it is not asked again");
    assert!(post.close().await.is_empty());
    failure
}

#[tokio::test]
async fn a_refusal_quotes_the_beginning_of_what_the_receiver_says() {
    let failure = check(Rule::Answer(StatusCode::UNPROCESSABLE_ENTITY, vec![], "no\x1b[2J such\r\nshop")).await;
    assert_eq!((failure.kind, &*failure.code), (Permanent, "webhook.rejected"));
    assert!(failure.error.ends_with("answered 422 Unprocessable Entity: no [2J such  shop"), "{}", failure.error);
}

#[tokio::test]
async fn redirects_are_never_followed() {
    let target = Receiver::start().await;
    let location = vec![("location", format!("http://127.0.0.1:{}/elsewhere", target.port()))];
    for status in [301, 302, 303, 307, 308] {
        let status = StatusCode::from_u16(status).expect("a status");
        let failure = check(Rule::Answer(status, location.clone(), "")).await;
        assert_eq!((failure.kind, &*failure.code), (Transient, "webhook.redirect"));
        assert!(failure.error.contains("give the URL it leads to"), "{}", failure.error);
    }
    assert!(target.got().is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn a_wish_to_be_asked_later_is_honoured_and_clamped() {
    let soon = Timestamp::now() + SignedDuration::from_secs(100);
    let date = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let seconds = |n| Some(Duration::from_secs(n));
    for (status, wish, kind, expected) in [
        (429, Some("7"), Unavailable, seconds(7)),
        (429, Some("0"), Unavailable, seconds(0)),
        (429, Some("99999999999999999999"), Unavailable, Some(RETRY_AFTER_MAX)),
        (429, Some("Fri, 31 Dec 9999 23:59:59 GMT"), Unavailable, Some(RETRY_AFTER_MAX)),
        (429, Some("Sun, 06 Nov 1994 08:49:37 GMT"), Unavailable, seconds(0)),
        (429, Some("when it suits you"), Unavailable, None),
        (429, None, Unavailable, None),
        (503, Some("7"), Unavailable, seconds(7)),
        (503, Some("-7"), Unavailable, None),
        (503, None, Unavailable, None),
        (502, Some("7"), Unavailable, seconds(7)),
        (504, None, Unavailable, None),
        (500, Some("7"), Transient, seconds(7)),
    ] {
        let headers = wish.map(|wish| ("retry-after", wish.to_owned())).into_iter().collect();
        let failure = check(Rule::Answer(StatusCode::from_u16(status).expect("a status"), headers, "")).await;
        assert_eq!((failure.kind, failure.retry_after), (kind, expected), "{status} {wish:?}");
        assert_eq!(failure.code, format!("webhook.status_{status}"));
    }
    let failure = check(Rule::Answer(StatusCode::TOO_MANY_REQUESTS, vec![("retry-after", date)], "")).await;
    let wait = failure.retry_after.expect("a date is a wish").as_secs();
    assert!((60..=100).contains(&wait), "{wait}");
}

#[tokio::test]
async fn an_endpoint_that_is_gone_disables_its_route() {
    let failure = check(Rule::status(410)).await;
    assert_eq!((failure.kind, &*failure.code), (Gone, "webhook.gone"));
}

#[tokio::test]
async fn an_answer_after_our_time_out_means_the_same_id_again_with_a_new_time() {
    let receiver = Receiver::start().await;
    receiver.rule("late", Rule::Hold);
    let mut post = post(http(receiver.port(), Duration::from_millis(1200)));
    let failure = failure(&mut post, "late").await;
    assert_eq!((failure.kind, &*failure.code), (Unavailable, "webhook.timeout"));
    assert!(failure.error.contains("did not answer within 1.2s") || failure.error.contains("1200ms"), "{failure:?}");
    // The receiver says yes to somebody who has left, and then to the second try.
    receiver.rule("late", Rule::status(200));
    post.deliver_until_ok(&[event("late")]).await;
    let got = receiver.got();
    let of = |name: &str| got.iter().map(|g| g.header(name).to_owned()).collect::<Vec<_>>();
    assert_eq!(of("webhook-id"), ["late", "late"]);
    let times = of("webhook-timestamp");
    assert!(times[0].parse::<i64>().expect("seconds") < times[1].parse().expect("seconds"), "{times:?}");
    assert_ne!(of("webhook-signature")[0], of("webhook-signature")[1]);
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_fails_its_event_alone() {
    let receiver = Receiver::start().await;
    let mut post = post(http(receiver.port(), LONG));
    post.deliver(&[event("bad").header("x-shop", "a\r\nx-evil: canary"), event("good")]).await;
    let outcomes = post.outcomes().await;
    let failure = outcomes["bad"].as_ref().expect_err("it cannot be sent");
    assert_eq!((failure.kind, &*failure.code), (Permanent, "webhook.header"));
    assert!(failure.error.contains("\"x-shop\"") && !failure.error.contains("canary"), "{}", failure.error);
    assert!(outcomes["good"].is_ok());
    assert_eq!(receiver.got().len(), 1);
}
