//! Every outbound is reported exactly once, and nothing outlives the transport.

use super::harness::{Harness, LONG, Post, events, until};

/// Three batches, one outcome each.
pub async fn every_outbound_is_reported_exactly_once<H: Harness>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    let events = events(90);
    for batch in events.chunks(30) {
        post.deliver(batch).await;
    }
    let outcomes = post.outcomes().await;
    assert_eq!(outcomes.len(), 90);
    assert!(outcomes.values().all(Result::is_ok), "{outcomes:?}");
    assert!(post.close().await.is_empty(), "something was reported twice");
}

/// More than any transport takes at once.
pub async fn a_thousand_in_one_batch_are_all_delivered<H: Harness>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&events(1000)).await;
    let outcomes = post.outcomes().await;
    assert_eq!(outcomes.values().filter(|o| o.is_ok()).count(), 1000);
    assert!(post.close().await.is_empty());
}

/// Nothing to do is nothing done.
pub async fn an_empty_batch_is_no_trouble<H: Harness>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&[]).await;
    post.deliver_until_ok(&events(1)).await;
    assert!(post.close().await.is_empty());
}

/// A route may end before its first event.
pub async fn closing_before_the_first_delivery_is_no_trouble<H: Harness>() {
    let harness = H::start(LONG).await;
    assert!(Post::new(harness.transport()).close().await.is_empty());
    assert_eq!(harness.running().await, 0);
}

/// When `close` has returned, it is over.
pub async fn closing_leaves_nothing_running<H: Harness>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver_until_ok(&events(5)).await;
    assert!(post.close().await.is_empty());
    until("nothing to run after the close", async || harness.running().await == 0).await;
}

/// A transport that is only dropped ends as well, if a little later.
pub async fn dropping_leaves_nothing_running<H: Harness>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver_until_ok(&events(5)).await;
    assert!(post.give_up().await.is_empty());
    until("nothing to run after the drop", async || harness.running().await == 0).await;
}

/// A late hand-over is an outcome like any other, never a silence.
pub async fn what_is_handed_over_after_the_close_is_reported_too<H: Harness>() {
    let harness = H::start(LONG).await;
    let transport = harness.transport();
    let mut post = Post::new(transport.clone());
    post.deliver_until_ok(&events(1)).await;
    transport.close().await;
    post.deliver(&events(3)).await;
    assert_eq!(post.outcomes().await.len(), 3);
    drop(transport);
    assert!(post.give_up().await.is_empty());
}
