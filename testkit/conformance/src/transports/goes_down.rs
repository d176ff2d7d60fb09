//! An outage is `Unavailable` for everything, loses nothing, and ends.

use std::collections::HashSet;

use postroom_core::{Event, FailureKind};

use super::harness::{Breakable, LONG, Post, event, events, until};

/// Nothing was ever there to talk to.
pub async fn a_destination_that_is_down_from_the_start_costs_nothing_but_time<H: Breakable>() {
    let harness = H::start(LONG).await;
    harness.stop().await;
    outage(&harness, Post::new(harness.transport())).await;
}

/// It worked, and then it did not.
pub async fn a_destination_that_goes_down_later_costs_nothing_but_time<H: Breakable>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver_until_ok(&[event("early")]).await;
    harness.stop().await;
    outage(&harness, post).await;
}

/// A stop does not wait for a destination that is not there.
pub async fn closing_while_the_destination_is_down_is_no_trouble<H: Breakable>() {
    let harness = H::start(LONG).await;
    harness.stop().await;
    let mut post = Post::new(harness.transport());
    post.deliver(&events(5)).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes.values().all(Result::is_err), "{outcomes:?}");
    assert!(post.close().await.is_empty());
    until("nothing to run after the close", async || harness.running().await == 0).await;
}

async fn outage<H: Breakable>(harness: &H, mut post: Post) {
    let events: Vec<Event> = events(20);
    post.deliver(&events).await;
    let outcomes = post.outcomes().await;
    assert_eq!(outcomes.len(), 20);
    for (id, outcome) in &outcomes {
        let Err(failure) = outcome else { panic!("{id} was delivered to a destination that is down") };
        assert_eq!(failure.kind, FailureKind::Unavailable, "{id}: {failure:?}");
    }
    harness.resume().await;
    post.deliver_until_ok(&events).await;
    let arrived: HashSet<String> = harness.arrived().await.into_iter().map(|a| a.id).collect();
    assert!(events.iter().all(|e| arrived.contains(&e.id)), "an event was lost in the outage");
    post.close().await;
}
