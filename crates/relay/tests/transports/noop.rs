//! Delivers nowhere.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Harness, Post};
use postroom_core::{Event, Transport};
use postroom_relay::Noop;

struct Nowhere;

#[async_trait]
impl Harness for Nowhere {
    async fn start(_: Duration) -> Self {
        Self
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Noop)
    }

    async fn running(&self) -> usize {
        0
    }
}

postroom_conformance::transport_suite!(Nowhere: reports);

#[tokio::test]
async fn everything_is_reported_in_the_hand_over_itself() {
    let mut post = Post::new(Arc::new(Noop));
    post.deliver(&[Event::new("t")]).await;
    assert!(!post.is_silent());
    assert!(post.outcome().await.1.is_ok());
}
