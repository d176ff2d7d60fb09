//! Slow, refused and never answered events are reported as what they are and harm no other.

use std::time::Duration;

use postroom_core::FailureKind;

use super::harness::{Behaviour, LONG, Post, Scripted, event, until};

/// Having it is not yet having taken it.
pub async fn nothing_is_reported_before_the_destination_answers<H: Scripted>() {
    let harness = H::start(LONG).await;
    harness.behave("held", Behaviour::Hold).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&[event("held")]).await;
    until("the event to arrive", async || harness.arrived().await.len() == 1).await;
    assert!(post.is_silent(), "reported before it was answered");
    harness.behave("held", Behaviour::Accept).await;
    assert!(post.outcome().await.1.is_ok());
    post.close().await;
}

/// No barrier: the others come back first.
pub async fn a_slow_one_holds_back_no_other<H: Scripted>() {
    let harness = H::start(LONG).await;
    harness.behave("slow", Behaviour::Hold).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&[event("slow"), event("a"), event("b")]).await;
    post.deliver(&[event("c")]).await;
    let mut quick = Vec::new();
    for _ in 0..3 {
        let (event, outcome) = post.outcome().await;
        assert!(outcome.is_ok(), "{outcome:?}");
        quick.push(event.id);
    }
    quick.sort();
    assert_eq!(quick, ["a", "b", "c"]);
    harness.behave("slow", Behaviour::Accept).await;
    let (event, outcome) = post.outcome().await;
    assert!(event.id == "slow" && outcome.is_ok(), "{outcome:?}");
    post.close().await;
}

/// Transient is about this event, this time.
pub async fn one_refused_for_now_fails_alone_and_gets_through_later<H: Scripted>() {
    let (harness, mut post) = refused::<H>(Behaviour::RefuseForNow, FailureKind::Transient).await;
    harness.behave("bad", Behaviour::Accept).await;
    post.deliver(&[event("bad")]).await;
    assert!(post.outcome().await.1.is_ok());
    post.close().await;
}

/// Permanent is about this event, for ever.
pub async fn one_refused_for_good_fails_alone<H: Scripted>() {
    let (_harness, post) = refused::<H>(Behaviour::RefuseForGood, FailureKind::Permanent).await;
    post.close().await;
}

/// The time-out finds it, and what it takes along with it gets through when it is sent again.
pub async fn one_never_answered_is_reported_and_the_others_get_through<H: Scripted>() {
    let harness = H::start(Duration::from_millis(700)).await;
    harness.behave("stuck", Behaviour::Ignore).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&[event("a"), event("stuck"), event("b")]).await;
    let outcomes = post.outcomes().await;
    let Err(failure) = &outcomes["stuck"] else { panic!("delivered without an answer") };
    assert_ne!(failure.kind, FailureKind::Permanent, "{failure:?}");
    for id in ["a", "b"] {
        if let Err(failure) = &outcomes[id] {
            assert_eq!(failure.kind, FailureKind::Unavailable, "{id}: {failure:?}");
        }
    }
    post.deliver_until_ok(&[event("a"), event("b"), event("c")]).await;
    post.close().await;
    until("nothing to run after the close", async || harness.running().await == 0).await;
}

/// A stop that cannot wait any longer gives everything back, and no attempt is lost by it.
pub async fn closing_reports_what_is_still_on_its_way<H: Scripted>() {
    let (harness, post) = held::<H>().await;
    let outcomes = post.close().await;
    let Some(Err(failure)) = outcomes.get("held") else { panic!("not reported as failed: {outcomes:?}") };
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
    until("nothing to run after the close", async || harness.running().await == 0).await;
}

/// The same without a close.
pub async fn dropping_reports_what_is_still_on_its_way<H: Scripted>() {
    let (harness, post) = held::<H>().await;
    let outcomes = post.give_up().await;
    assert!(matches!(outcomes.get("held"), Some(Err(_))), "not reported as failed: {outcomes:?}");
    until("nothing to run after the drop", async || harness.running().await == 0).await;
}

async fn refused<H: Scripted>(behaviour: Behaviour, kind: FailureKind) -> (H, Post) {
    let harness = H::start(LONG).await;
    harness.behave("bad", behaviour).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&[event("a"), event("bad"), event("b")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["a"].is_ok() && outcomes["b"].is_ok(), "{outcomes:?}");
    let Err(failure) = &outcomes["bad"] else { panic!("delivered although refused") };
    assert_eq!(failure.kind, kind, "{failure:?}");
    assert!(!failure.code.is_empty() && !failure.error.is_empty(), "{failure:?}");
    (harness, post)
}

async fn held<H: Scripted>() -> (H, Post) {
    let harness = H::start(LONG).await;
    harness.behave("held", Behaviour::Hold).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&[event("held")]).await;
    until("the event to arrive", async || harness.arrived().await.len() == 1).await;
    (harness, post)
}
