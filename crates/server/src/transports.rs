//! Builds the transports of a configuration. Which kinds there are is `kinds`'s.

mod kinds;

use std::sync::Arc;

#[cfg(feature = "contracts")]
use postroom_contracts::{AppliesTo, Contracted, Enveloped};
#[cfg(feature = "contracts")]
use postroom_core::Contract as _;
#[cfg(feature = "contracts")]
use postroom_core::envelope::{Binding, Encoder};
use postroom_core::{Event, EventError, Transport};
use postroom_transport_kit::Encoding;

pub(crate) use kinds::{SHARED, TO, discards, has_handlers, kind, kinds};

use crate::config::{Config, RouteConfig, StoreConfig};
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
    let transport = route.to.build(name, Encoding { format: &route.envelope, source: &store.source });
    #[cfg(feature = "http")]
    if let Some(pull) = (&*transport as &dyn std::any::Any).downcast_ref::<postroom_pull::Pull>() {
        pulls.add(&store.name, name, pull.queue());
    }
    transport
}
