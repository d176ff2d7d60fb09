//! The transport: hands messages to its driver, which runs from the first delivery to the close ([`crate::driver`]).

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::driver::DriverTask;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Finding, Outbound, Transport};

use crate::driver::{Driver, Setting};
use crate::options::RabbitMqOptions;
use crate::{check, failures};

/// Delivers to a RabbitMQ exchange. See the [crate].
#[derive(Debug)]
pub struct RabbitMq {
    setting: Arc<Setting>,
    driver: DriverTask<Vec<Outbound>>,
}

impl RabbitMq {
    /// A transport for this route. Nothing is opened before the first delivery.
    pub fn new(route: impl Into<String>, options: RabbitMqOptions, encoder: Encoder) -> Self {
        let setting = Arc::new(Setting { route: route.into(), options, encoder });
        Self { setting, driver: DriverTask::default() }
    }
}

#[async_trait]
impl Transport for RabbitMq {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("rabbitmq")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        if let Err(refused) =
            self.driver.hand_over(batch, |batches| Driver::new(Arc::clone(&self.setting), batches).run())
        {
            Outbound::report_all(refused, &failures::closed());
        }
    }

    async fn check(&self) -> Vec<Finding> {
        check::look(&self.setting).await
    }

    async fn close(&self) {
        self.driver.close().await;
    }
}
