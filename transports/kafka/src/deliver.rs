//! The transport: hands batches to its driver, which is started by the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, LagReader, Outbound, Transport};
use postroom_transport_kit::driver::DriverTask;

use crate::driver::{Driver, Orders};
use crate::lag::GroupLag;
use crate::options::{IN_FLIGHT_MAX, KafkaOptions};
use crate::{check, failures};

/// Transport to Kafka. See the [crate] for its guarantees.
#[derive(Debug)]
pub struct Kafka {
    orders: Arc<Orders>,
    driver: DriverTask<Vec<Outbound>>,
}

impl Kafka {
    /// Creates a transport for this route. Nothing is started before the first delivery.
    pub fn new(route: impl Into<String>, options: KafkaOptions, encoder: Encoder) -> Self {
        let orders =
            Orders { route: route.into().into(), options: Arc::new(options), encoder, bytes_max: AtomicUsize::new(0) };
        Self { orders: Arc::new(orders), driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for Kafka {
    fn capabilities(&self) -> Capabilities {
        let bytes_max = self.orders.bytes_max.load(Ordering::Relaxed);
        Capabilities {
            name: "kafka",
            pipelines_key: self.orders.options.pipelines_key(),
            in_flight_max: Some(IN_FLIGHT_MAX),
            envelope_bytes_max: Some(bytes_max).filter(|bytes| *bytes > 0),
            takes_dead_letters: self.orders.options.dlq_topic.is_some(),
            logs_errors: true,
        }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        if batch.is_empty() {
            return;
        }
        if let Err(refused) =
            self.driver.hand_over(batch, |batches| Driver::new(Arc::clone(&self.orders), batches).run())
        {
            Outbound::report_all(refused, &failures::closed());
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check::check(&self.orders).await
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        let options = &self.orders.options;
        Some(Box::new(GroupLag::new(options, options.consumers.as_ref()?)?))
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}
