//! Builds the transports of a configuration. One line here per kind of transport.

use std::sync::Arc;

#[cfg(feature = "contracts")]
use postroom_contracts::{AppliesTo, Contracted, Enveloped};
#[cfg(feature = "contracts")]
use postroom_core::Contract as _;
use postroom_core::envelope::{Binding, Encoder};
use postroom_core::{Event, EventError, Transport};
use postroom_relay::{Noop, Stdout};

use crate::config::{Config, RouteConfig, StoreConfig, Target};
use crate::pulls::Pulls;

/// The transport of a route, for the events of one store, behind the contracts there are. Workers find what they pull in `pulls`.
#[cfg_attr(not(feature = "contracts"), expect(unused_variables, reason = "only contracts stand beside the routes"))]
pub fn build(config: &Config, route: &RouteConfig, store: &StoreConfig, pulls: &Pulls) -> Arc<dyn Transport> {
    let behind = plain(route, store, pulls);
    #[cfg(feature = "contracts")]
    if !config.contract.contracts.is_empty() {
        return Arc::new(Contracted::new(behind, enveloped(config, route, store)));
    }
    behind
}

/// Whether an event may be appended to a store: by its payload, or by what the routes that want it would send.
#[cfg(feature = "contracts")]
pub fn check(config: &Config, store: &StoreConfig, event: &Event) -> Result<(), EventError> {
    let contracts = &config.contract.contracts;
    if contracts.applies_to() == AppliesTo::Payload {
        return contracts.check(event);
    }
    let wants = |route: &&RouteConfig| route.stores.contains(&store.name) && route.definition.filter.matches(event);
    config.routes.iter().filter(wants).try_for_each(|route| enveloped(config, route, store).check(event))
}

/// Whether an event may be appended to a store: without contracts any may.
#[cfg(not(feature = "contracts"))]
pub fn check(_: &Config, _: &StoreConfig, _: &Event) -> Result<(), EventError> {
    Ok(())
}

/// The body is the same for every binding.
#[cfg(feature = "contracts")]
fn enveloped(config: &Config, route: &RouteConfig, store: &StoreConfig) -> Enveloped {
    let encoder = Encoder::new(route.envelope.clone(), Binding::Http, &store.source);
    Enveloped::new(Arc::clone(&config.contract.contracts), encoder)
}

#[cfg_attr(not(feature = "http"), expect(unused_variables, reason = "nobody pulls"))]
fn plain(route: &RouteConfig, store: &StoreConfig, pulls: &Pulls) -> Arc<dyn Transport> {
    let name = &route.definition.name;
    let encoder = |binding| Encoder::new(route.envelope.clone(), binding, &store.source);
    match &route.to {
        #[cfg(feature = "exec")]
        Target::Exec(exec) => {
            use postroom_exec::{Exec, ExecOptions, Target as Child};

            use crate::config::ExecPeer;

            let child = match &exec.peer {
                ExecPeer::Command(command) => Child::Command(command.clone()),
                ExecPeer::Socket(path) => Child::Socket(path.clone()),
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
        #[cfg(feature = "http")]
        Target::Pull(options) => {
            let pull = postroom_pull::Pull::new(name, *options, encoder(Binding::Http));
            pulls.add(&store.name, name, pull.queue());
            Arc::new(pull)
        }
        Target::Stdout => Arc::new(Stdout::new(encoder(Binding::Http))),
        Target::Noop => Arc::new(Noop),
    }
}
