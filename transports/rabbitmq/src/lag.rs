//! Lag of queues: how many messages wait in them, and how many consumers they have.
//!
//! Asked by passive declarations, on a connection of its own that each read opens and closes. AMQP counts messages that are ready;
//! those that consumers hold unacknowledged it does not tell.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{ConsumerLag, ConsumerLags, Failure, LagOptions, LagReader};
use tokio::time::timeout;

use crate::connection::{Connection, Ending};
use crate::driver::{GOODBYE, Setting};
use crate::failures;
use crate::options::RabbitMqOptions;
use crate::topology::setup::{Level, find_queue};
use crate::wire::decode::Closing;

const ACCESS_REFUSED: u16 = 403;
/// Another connection has the queue for itself.
const RESOURCE_LOCKED: u16 = 405;

/// Reader of the lag of the queues behind an exchange.
#[derive(Debug)]
pub(crate) struct QueueLag {
    setting: Arc<Setting>,
    every: Duration,
    queues: Vec<String>,
}

impl QueueLag {
    /// Nothing when no queue is known.
    pub(crate) fn new(setting: &Arc<Setting>, lag: &LagOptions) -> Option<Self> {
        let mut queues = known(&setting.options);
        queues.extend(lag.names.iter().cloned());
        queues.sort();
        queues.dedup();
        (!queues.is_empty()).then(|| Self { setting: Arc::clone(setting), every: lag.every, queues })
    }

    async fn levels(&self, connection: &mut Connection) -> Result<ConsumerLags, Ending> {
        let (mut consumers, mut problems) = (Vec::new(), Vec::new());
        for queue in &self.queues {
            let (level, problem) = match find_queue(connection, queue).await {
                Ok(Some(level)) => (Some(level), None),
                Ok(None) => (None, Some(format!("queue {queue} does not exist"))),
                Err(Ending::Channel(Closing { code: ACCESS_REFUSED, text })) => {
                    connection.open_channel().await?;
                    (None, Some(format!("rabbitmq.denied: {text}; grant a right on queue {queue}")))
                }
                Err(Ending::Channel(Closing { code: RESOURCE_LOCKED, text })) => {
                    connection.open_channel().await?;
                    (None, Some(text))
                }
                Err(ending) => return Err(ending),
            };
            problems.extend(problem);
            let (messages, members) =
                level.map(|Level { messages, consumers }| (u64::from(messages), u64::from(consumers))).unzip();
            consumers.push(ConsumerLag::new(self.setting.options.exchange_name(), queue, messages, members));
        }
        Ok(ConsumerLags::new(consumers, problems.join("; ")))
    }
}

#[async_trait]
impl LagReader for QueueLag {
    fn every(&self) -> Duration {
        self.every
    }

    async fn read(&mut self) -> Result<ConsumerLags, Failure> {
        let Setting { route, options, .. } = &*self.setting;
        let address = options.check().map_err(|error| failures::options(&error))?;
        let mut connection = Connection::open(route, options, &address).await?;
        let read = timeout(options.timeout, self.levels(&mut connection)).await;
        connection.close(GOODBYE, |_| {}).await;
        match read {
            Ok(read) => read.map_err(|ending| failures::ending(&address, &ending)),
            Err(_) => Err(failures::no_answer(&address, options.timeout)),
        }
    }
}

/// The queues that the topology binds to the exchange of the route, or the one that the default exchange names.
fn known(options: &RabbitMqOptions) -> Vec<String> {
    if options.exchange.is_empty() {
        return options.routing_key.fixed().map(str::to_owned).into_iter().collect();
    }
    let queues = options.topology.iter().flat_map(|topology| &topology.queues);
    let bound = queues.filter(|queue| queue.bindings.iter().any(|binding| binding.exchange == options.exchange));
    bound.map(|queue| queue.name.clone()).collect()
}
