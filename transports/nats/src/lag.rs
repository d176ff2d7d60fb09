//! Lag of the consumers of a stream: what they have still to be sent, and what they have not acknowledged.
//!
//! Each read opens a connection of its own. Consumers that are not durable have names that nobody gave them, and come and go: they
//! are read only when they are named.

use std::time::Duration;

use async_nats::jetstream::consumer::Info;
use async_trait::async_trait;
use postroom_core::{ConsumerLag, ConsumerLags, Failure, LagOptions, LagReader};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::failures;
use crate::options::NatsOptions;

/// Reader of the lag of a stream's consumers.
#[derive(Debug)]
pub(crate) struct StreamLag {
    options: NatsOptions,
    /// How the server's list of connections calls us.
    name: String,
    stream: String,
    lag: LagOptions,
}

impl StreamLag {
    /// Nothing when the stream is not known.
    pub(crate) fn new(options: &NatsOptions, name: String, lag: &LagOptions) -> Option<Self> {
        let stream = options.stream.clone()?;
        Some(Self { options: options.clone(), name, stream, lag: lag.clone() })
    }

    fn lags(&self, found: &[Info]) -> ConsumerLags {
        let of = |info: &Info| {
            let messages = info.num_pending + info.num_ack_pending as u64;
            // Nobody counts those who pull: a request that waits is one, and the busy have none.
            let members = info.config.deliver_subject.is_some().then(|| u64::from(info.push_bound));
            ConsumerLag::new(&self.stream, &info.name, Some(messages), members)
        };
        if self.lag.names.is_empty() {
            let durable = found.iter().filter(|info| info.config.durable_name.is_some());
            return ConsumerLags::new(durable.map(of).collect(), "");
        }
        let mut problems = Vec::new();
        let named = self.lag.names.iter().map(|name| {
            found.iter().find(|info| info.name == *name).map_or_else(
                || {
                    problems.push(format!("stream {} has no consumer {name}", self.stream));
                    ConsumerLag::new(&self.stream, name, None, None)
                },
                of,
            )
        });
        let consumers = named.collect();
        ConsumerLags::new(consumers, problems.join("; "))
    }
}

#[async_trait]
impl LagReader for StreamLag {
    fn every(&self) -> Duration {
        self.lag.every
    }

    async fn read(&mut self) -> Result<ConsumerLags, Failure> {
        let mut connection = Connection::open(&self.options, &self.name).await?;
        let read = async {
            connection.stream(&self.stream, None).await?;
            connection.consumers(&self.stream).await
        };
        let Ok(found) = timeout(self.options.timeout, read).await else {
            return Err(failures::unreachable(&connection.server, &"no answer"));
        };
        Ok(self.lags(&found?))
    }
}
