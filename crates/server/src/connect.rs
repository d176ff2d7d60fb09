//! Gets hold of the stores: one that answers is enough to start, the others are asked again in the background.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, join_all, ready};
use postroom_admin::ManagedStore;
use postroom_core::{Limits, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::{Config, RouteConfig, StoreConfig};
use crate::run_error::RunError;
use crate::{renamed, stores};

/// How long a start waits for the first store.
const REACH_WITHIN: Duration = Duration::from_secs(10);
/// First pause before a store is asked again; doubles.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Longest pause before a store is asked again.
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);

/// A store, as soon as it can be reached.
pub(crate) type Ready = Shared<BoxFuture<'static, Arc<dyn ManagedStore>>>;

/// Waits until one of the stores has answered. An error when one refuses, or when none answers in time.
pub(crate) async fn reach(wanted: &[&StoreConfig], config: &Config) -> Result<BTreeMap<String, Ready>, RunError> {
    let deadline = Instant::now() + REACH_WITHIN;
    let mut pause = ASK_AGAIN;
    loop {
        let answers = join_all(wanted.iter().map(|store| ask(store, config, deadline))).await;
        let (mut reached, mut silent) = (BTreeMap::new(), Vec::new());
        for (store, answer) in wanted.iter().zip(answers) {
            match answer {
                Ok(open) => drop(reached.insert(store.name.clone(), ready(open).boxed().shared())),
                Err(error) if error.is_transient() => silent.push((*store, error)),
                Err(error) => return Err(RunError::Refused { store: store.name.clone(), error }),
            }
        }
        if !reached.is_empty() {
            for (store, error) in silent {
                tracing::warn!(store = store.name, %error, "store is not reachable; retrying");
                reached.insert(store.name.clone(), later(store, config));
            }
            return Ok(reached);
        }
        if Instant::now() + pause >= deadline {
            return Err(RunError::Unreachable(silent.into_iter().map(|(s, error)| (s.name.clone(), error)).collect()));
        }
        if pause == ASK_AGAIN {
            for (store, error) in &silent {
                tracing::warn!(store = store.name, %error, "store is not reachable yet; trying for {} s", REACH_WITHIN.as_secs());
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(ASK_AGAIN_MAX);
    }
}

async fn ask(store: &StoreConfig, config: &Config, deadline: Instant) -> Result<Arc<dyn ManagedStore>, StoreError> {
    timeout_at(deadline, open(store, config.limits, &config.routes_of(&store.name))).await.unwrap_or_else(|_| {
        let message = format!("{} did not answer within {} s", store.url, REACH_WITHIN.as_secs());
        Err(StoreError::new(StoreErrorKind::Unreachable, "open", message))
    })
}

/// Opens a store in which no route would lose its events by a new name.
async fn open(
    store: &StoreConfig,
    limits: Limits,
    routes: &[&RouteConfig],
) -> Result<Arc<dyn ManagedStore>, StoreError> {
    let opened = stores::open(store, limits).await?;
    for passed_over in renamed::check(store, &*opened.admin(), routes, &[]).await? {
        tracing::info!(store = store.name, route = passed_over.route, earlier = passed_over.events, "{passed_over}");
    }
    Ok(opened)
}

/// Asks until the store answers. By now the relay runs, so that not even a refusal ends it: somebody may migrate the store.
fn later(store: &StoreConfig, config: &Config) -> Ready {
    let (store, limits) = (store.clone(), config.limits);
    let routes: Vec<RouteConfig> = config.routes_of(&store.name).into_iter().cloned().collect();
    async move {
        let routes: Vec<&RouteConfig> = routes.iter().collect();
        let (mut pause, mut said) = (ASK_AGAIN, String::new());
        loop {
            match open(&store, limits, &routes).await {
                Ok(open) => {
                    tracing::info!(store = store.name, "store reached");
                    return open;
                }
                Err(error) if error.message != said => {
                    tracing::warn!(store = store.name, %error, hint = error.hint, "store cannot be opened; retrying");
                    said = error.message;
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(ASK_AGAIN_MAX);
        }
    }
    .boxed()
    .shared()
}
