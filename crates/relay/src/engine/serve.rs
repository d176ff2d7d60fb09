//! The beginning of an engine: waits for the store, opens the route, and runs.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Clock, OnDead, RelayIdentity, RouteSpec, Source, Store, StoreError};
use tokio::sync::{Barrier, mpsc};
use tokio_util::sync::CancellationToken;

use super::context::RouteContext;
use super::destination::Destination;
use super::drain::Drain;
use super::health::Health;
use super::ownership::LaneOwnership;
use super::queue::Queue;
use super::settler::Settler;
use super::timing::Timing;
use super::window::Window;
use super::{Engine, Phase};
use crate::observer::Observer;
use crate::options::RelayOptions;
use crate::outage::StoreOutage;
use crate::ownership_epoch::OwnershipView;
use crate::route::{Route, StoreRoute};
use crate::slots::Share;

/// First and longest pause between two tries to open a route.
const OPEN_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What an engine shares with its relay.
pub(crate) struct Surroundings {
    pub(crate) identity: RelayIdentity,
    pub(crate) options: Arc<RelayOptions>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) share: Share,
    /// Most deliveries of this route that one fault may repeat.
    pub(crate) bound: usize,
    pub(crate) ownership_view: OwnershipView,
    pub(crate) outage: StoreOutage,
    /// Where the routes of a store wait until all of them are registered: what one of them finishes, a new one may not see any more.
    pub(crate) registered: Arc<Barrier>,
    pub(crate) rng: fastrand::Rng,
}

/// Waits for the store, opens the route and serves it until `stop`.
pub(crate) async fn serve(served: StoreRoute, around: Surroundings, stop: CancellationToken) -> Result<(), StoreError> {
    let StoreRoute { store_name, store, route } = served;
    let Route { spec: definition, transport, retry, breaker, rate, poll } = route;
    let store = tokio::select! {
        biased;
        store = store => store,
        () = stop.cancelled() => return Ok(()),
    };
    let Some(source) = open(store, &definition, &around, &stop).await? else { return Ok(()) };
    tokio::select! {
        _ = around.registered.wait() => {}
        // What is open is released by the engine.
        () = stop.cancelled() => {}
    }
    source.bound(around.bound);
    let mut capabilities = transport.capabilities();
    // What is behind a dead event that holds its key must not be on its way already.
    capabilities.pipelines_key &= definition.on_dead == OnDead::Continue;
    let (report, reports) = mpsc::unbounded_channel();
    let observer = around.observer.route(&store_name, &definition.name);
    let Surroundings { options, clock, share, ownership_view, outage, rng, .. } = around;
    let engine = Engine {
        rng,
        phase: Phase::Serving,
        timing: Timing::new(&options, poll),
        ownership: LaneOwnership::new(ownership_view),
        queue: Queue::new(capabilities.pipelines_key),
        window: Window::new(share, capabilities.in_flight_max, report),
        destination: Destination::new(breaker, rate, capabilities.pipelines_key),
        settler: Settler::new(options.in_flight_max / 2),
        drain: Drain::new(options.drain),
        health: Health::new(clock.elapsed(), clock.now()),
        route: RouteContext {
            store_name,
            definition,
            source,
            transport,
            capabilities,
            retry,
            options,
            clock,
            observer,
            outage,
        },
    };
    engine.run(reports, stop).await;
    Ok(())
}

/// Opens the route, as often as it takes; `None` when stopped meanwhile.
async fn open(
    store: Arc<dyn Store>,
    definition: &RouteSpec,
    around: &Surroundings,
    stop: &CancellationToken,
) -> Result<Option<Arc<dyn Source>>, StoreError> {
    let mut pause = OPEN_PAUSE.0;
    loop {
        let opened = tokio::select! {
            biased;
            opened = store.source(&around.identity, definition) => opened,
            () = stop.cancelled() => return Ok(None),
        };
        match opened {
            Ok(source) => return Ok(Some(source)),
            Err(error) if error.is_transient() => {
                tracing::warn!(store = store.name(), route = definition.name, %error, "route cannot be opened yet");
                tokio::select! {
                    biased;
                    () = around.clock.sleep(pause) => {}
                    () = stop.cancelled() => return Ok(None),
                }
                pause = (pause * 2).min(OPEN_PAUSE.1);
            }
            Err(error) => return Err(error),
        }
    }
}
