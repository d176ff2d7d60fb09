//! The transport: hands batches to its driver, which is started by the first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Finding, Outbound, Transport};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::driver::{Driver, Orders};
use crate::options::{Acks, KafkaOptions, QUEUE_MESSAGES};
use crate::{check, failures};

/// Delivers to Kafka. See the [crate] for what it promises.
#[derive(Debug)]
pub struct Kafka {
    orders: Arc<Orders>,
    driver: Mutex<DriverState>,
}

/// The driver runs from the first delivery until its channel is closed, by `close` or by drop.
#[derive(Debug)]
enum DriverState {
    Idle,
    Running(mpsc::UnboundedSender<Vec<Outbound>>, JoinHandle<()>),
    Closed,
}

impl Kafka {
    /// A transport for this route. Nothing is started before the first delivery.
    pub fn new(route: impl Into<String>, options: KafkaOptions, encoder: Encoder) -> Self {
        let orders =
            Orders { route: route.into().into(), options: Arc::new(options), encoder, bytes_max: AtomicUsize::new(0) };
        Self { orders: Arc::new(orders), driver: Mutex::new(DriverState::Idle) }
    }

    /// Gives the batch to the driver, or back when the transport is closed.
    fn hand_over(&self, batch: Vec<Outbound>) -> Result<(), Vec<Outbound>> {
        let mut state = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if let DriverState::Idle = *state {
            let (hand_over, batches) = mpsc::unbounded_channel();
            let driver = Driver::new(Arc::clone(&self.orders), batches);
            *state = DriverState::Running(hand_over, tokio::spawn(driver.run()));
        }
        match &*state {
            DriverState::Running(hand_over, _) => hand_over.send(batch).map_err(|error| error.0),
            DriverState::Idle | DriverState::Closed => Err(batch),
        }
    }
}

#[async_trait]
impl Transport for Kafka {
    fn capabilities(&self) -> Capabilities {
        let bytes_max = self.orders.bytes_max.load(Ordering::Relaxed);
        Capabilities {
            name: "kafka",
            // Without sequence numbers nobody keeps a later one from being written when an earlier one was not.
            pipelines_key: self.orders.options.acks == Acks::All,
            in_flight_max: Some(QUEUE_MESSAGES),
            envelope_bytes_max: Some(bytes_max).filter(|bytes| *bytes > 0),
            buries: self.orders.options.dlq_topic.is_some(),
        }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        if batch.is_empty() {
            return;
        }
        if let Err(refused) = self.hand_over(batch) {
            for outbound in refused {
                outbound.report(Err(failures::closed()));
            }
        }
    }

    async fn check(&self) -> Vec<Finding> {
        check::check(&self.orders).await
    }

    async fn close(&self) {
        let state = {
            let mut state = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, DriverState::Closed)
        };
        if let DriverState::Running(hand_over, driver) = state {
            drop(hand_over);
            // A driver that panicked has dropped, and so ended, everything it owned.
            let _ = driver.await;
        }
    }
}
