//! What a subscription's test file provides.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use postroom_consumer::Subscription;
use postroom_core::Transport;
use postroom_core::envelope::Format;

/// A place of its own on a broker for one case: where messages come from, and where dead ones go.
#[async_trait]
pub trait Harness: Sized + Send + Sync + 'static {
    /// Its subscription.
    type Subscription: Subscription;

    /// Two keys whose events do not wait for each other.
    const KEYS: [&'static str; 2] = ["bad", "good"];

    /// A fresh place, without one for the dead; subscriptions hold so many messages.
    async fn start(prefetch: u16) -> Self;

    /// Makes the place for the dead.
    async fn make_dead(&self);

    /// Another member of the one group.
    fn subscription(&self) -> Self::Subscription;

    /// Postroom's own transport to it. What one of them sends, another can send again.
    fn transport(&self, format: Format) -> Arc<dyn Transport>;

    /// Puts a message there that names no event.
    async fn send_nameless(&self, body: &str);

    /// What is among the dead so far.
    async fn dead(&self) -> Vec<Dead>;

    /// How many messages are not acknowledged. Asked while nobody reads.
    async fn left(&self) -> usize;

    /// How many messages nobody has in hand. Asked in the group `prefetch` only.
    async fn waiting(&self) -> usize;

    /// Cuts what connects us to the broker, and lets us connect again.
    async fn cut(&self);
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: String,
}

impl Dead {
    /// A header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}
