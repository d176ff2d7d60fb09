//! The transport: hands messages to its driver, which runs from the first delivery to the close ([`crate::driver`]).

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, LagReader, Outbound, Transport};
use postroom_transport_kit::driver::DriverTask;

use crate::driver::{Driver, Setting};
use crate::lag::QueueLag;
use crate::options::RabbitMqOptions;
use crate::{check, failures};

/// Transport to a RabbitMQ exchange. See the [crate].
#[derive(Debug)]
pub struct RabbitMq {
    setting: Arc<Setting>,
    driver: DriverTask<Vec<Outbound>>,
}

impl RabbitMq {
    /// Creates a transport for this route. Nothing is opened before the first delivery.
    pub fn new(route: impl Into<String>, options: RabbitMqOptions, encoder: Encoder) -> Self {
        let setting = Arc::new(Setting { route: route.into(), options, encoder });
        Self { setting, driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for RabbitMq {
    fn capabilities(&self) -> Capabilities {
        Capabilities { logs_errors: true, ..Capabilities::plain("rabbitmq") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        if let Err(refused) =
            self.driver.hand_over(batch, |batches| Driver::new(Arc::clone(&self.setting), batches).run())
        {
            Outbound::report_all(refused, &failures::closed());
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check::look(&self.setting).await
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        Some(Box::new(QueueLag::new(&self.setting, self.setting.options.consumers.as_ref()?)?))
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}
