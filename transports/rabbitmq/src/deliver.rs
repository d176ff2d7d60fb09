//! The transport: hands messages to its driver, which runs from the first delivery to the close ([`crate::driver`]).

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Finding, Outbound, Transport};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::driver::{Driver, Setting, report_all};
use crate::message::Message;
use crate::options::RabbitMqOptions;
use crate::{check, failures};

/// Delivers to a RabbitMQ exchange. See the [crate].
#[derive(Debug)]
pub struct RabbitMq {
    setting: Arc<Setting>,
    encoder: Encoder,
    driver: Mutex<DriverState>,
}

/// The driver runs from the first delivery until its channel is closed, by `close` or by drop.
#[derive(Debug)]
enum DriverState {
    Idle,
    Running(mpsc::UnboundedSender<Vec<Message>>, JoinHandle<()>),
    Closed,
}

impl RabbitMq {
    /// A transport for this route. Nothing is opened before the first delivery.
    pub fn new(route: impl Into<String>, options: RabbitMqOptions, encoder: Encoder) -> Self {
        let setting = Arc::new(Setting { route: route.into(), options });
        Self { setting, encoder, driver: Mutex::new(DriverState::Idle) }
    }

    /// Gives the messages to the driver, or back when the transport is closed.
    fn hand_over(&self, messages: Vec<Message>) -> Result<(), Vec<Message>> {
        let mut state = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if let DriverState::Idle = *state {
            let (hand_over, batches) = mpsc::unbounded_channel();
            let driver = Driver::new(Arc::clone(&self.setting), batches);
            *state = DriverState::Running(hand_over, tokio::spawn(driver.run()));
        }
        match &*state {
            DriverState::Running(hand_over, _) => hand_over.send(messages).map_err(|e| e.0),
            DriverState::Idle | DriverState::Closed => Err(messages),
        }
    }
}

#[async_trait]
impl Transport for RabbitMq {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("rabbitmq")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let options = &self.setting.options;
        let messages: Vec<Message> =
            batch.into_iter().filter_map(|outbound| Message::of(outbound, options, &self.encoder)).collect();
        if messages.is_empty() {
            return;
        }
        if let Err(refused) = self.hand_over(messages) {
            report_all(refused, &failures::closed());
        }
    }

    async fn check(&self) -> Vec<Finding> {
        check::look(&self.setting).await
    }

    async fn close(&self) {
        let state = {
            let mut state = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, DriverState::Closed)
        };
        if let DriverState::Running(hand_over, driver) = state {
            drop(hand_over);
            // A driver that panicked has dropped, and so reported, everything it owned.
            let _ = driver.await;
        }
    }
}
