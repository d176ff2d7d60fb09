//! Builds the transports of a configuration. One line here per kind of transport.

use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::{Binding, Encoder};
use postroom_exec::{Exec, ExecOptions, Target as ExecChild};
use postroom_relay::{Noop, Stdout};

use crate::config::{ExecPeer, RouteConfig, StoreConfig, Target};

/// The transport of a route, for the events of one store.
pub fn build(route: &RouteConfig, store: &StoreConfig) -> Arc<dyn Transport> {
    let name = &route.definition.name;
    let encoder = |binding| Encoder::new(route.envelope.clone(), binding, &store.source);
    match &route.to {
        Target::Exec(exec) => {
            let child = match &exec.peer {
                ExecPeer::Command(command) => ExecChild::Command(command.clone()),
                ExecPeer::Socket(path) => ExecChild::Socket(path.clone()),
            };
            let options = ExecOptions::new(name, child, encoder(Binding::Http));
            Arc::new(Exec::new(ExecOptions { in_flight: exec.in_flight, timeout: exec.timeout, ..options }))
        }
        #[cfg(feature = "kafka")]
        Target::Kafka(options) => {
            Arc::new(postroom_kafka::Kafka::new(name, (**options).clone(), encoder(Binding::Kafka)))
        }
        #[cfg(feature = "rabbitmq")]
        Target::RabbitMq(options) => {
            let encoder = encoder(Binding::Amqp);
            Arc::new(postroom_rabbitmq::RabbitMq::new(name, (**options).clone(), encoder))
        }
        #[cfg(feature = "webhook")]
        Target::Webhook(options) => {
            Arc::new(postroom_webhook::Webhook::new(name, (**options).clone(), encoder(Binding::Http)))
        }
        #[cfg(feature = "nats")]
        Target::Nats(options) => Arc::new(postroom_nats::Nats::new(name, (**options).clone(), encoder(Binding::Nats))),
        #[cfg(feature = "redis")]
        Target::Redis(options) => {
            Arc::new(postroom_redis::Redis::new(name, (**options).clone(), encoder(Binding::Redis)))
        }
        Target::Stdout => Arc::new(Stdout::new(encoder(Binding::Http))),
        Target::Noop => Arc::new(Noop),
    }
}
