//! Relays one after the other, each with the configuration that was asked for last: all of a new one, or nothing.
//!
//! The relay that runs ends in good order before the next one starts in its place: its lanes are given up and taken at
//! once. What is read at the start of the process cannot be changed that way, and a reload that tries is refused.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::Timestamp;
use postroom_core::metrics as names;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError, Problem};
use crate::discard;
use crate::monitor::Monitor;
use crate::relay::{self, RunOptions};
use crate::run_error::RunError;
use crate::{renamed, stores};

/// How long a store that is new may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Runs until `shutdown` resolves or, draining, until nothing is left. Whatever comes through `wanted` makes it `load` anew.
pub async fn run(
    first: Config,
    options: RunOptions,
    monitor: Arc<Monitor>,
    mut wanted: mpsc::Receiver<()>,
    load: impl Fn() -> Result<Config, ConfigError>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let mut config = first;
    let options = RunOptions { monitor: Some(Arc::clone(&monitor)), ..options };
    tokio::pin!(shutdown);
    note(&monitor, true);
    loop {
        let stop = CancellationToken::new();
        config = {
            let running = relay::run(&config, options.clone(), Arc::clone(&monitor) as _, stop.cancelled());
            tokio::pin!(running);
            let next = tokio::select! {
                biased;
                () = &mut shutdown => None,
                ended = &mut running => return ended,
                next = another(&config, &options, &monitor, &mut wanted, &load) => Some(next),
            };
            stop.cancel();
            let ended = running.await;
            let Some(next) = next else { return ended };
            ended?;
            next
        };
        monitor.reload(&config);
        note(&monitor, true);
        tracing::info!(routes = config.routes.len(), stores = config.stores.len(), "configuration reloaded");
    }
}

/// Waits for a configuration that will do.
async fn another(
    now: &Config,
    options: &RunOptions,
    monitor: &Monitor,
    wanted: &mut mpsc::Receiver<()>,
    load: &impl Fn() -> Result<Config, ConfigError>,
) -> Config {
    loop {
        if wanted.recv().await.is_none() {
            return std::future::pending().await;
        }
        let judged = match load() {
            Ok(next) => will_do(now, &next, options).await.map(|()| next),
            Err(error) => Err(error),
        };
        match judged {
            Ok(next) => return next,
            Err(error) => {
                note(monitor, false);
                for problem in &error.problems {
                    tracing::error!(%problem, "configuration not reloaded; the previous one stays in force");
                }
            }
        }
    }
}

/// Whether a relay can go on with this one.
async fn will_do(now: &Config, next: &Config, options: &RunOptions) -> Result<(), ConfigError> {
    let routes = relay::chosen(next, &options.routes)?;
    let fixed = [
        ("name", now.name == next.name),
        ("[http]", now.http == next.http),
        #[cfg(feature = "otlp")]
        ("[telemetry]", now.telemetry == next.telemetry),
        ("[log]", now.log == next.log),
    ];
    if let Some((what, _)) = fixed.iter().find(|(_, same)| !same) {
        let message = format!("{what} is read when the program starts, and it is another one now");
        return Err(Problem::new(message).hint("restart the relay").into());
    }
    let fresh = next.stores.iter().filter(|store| !now.stores.contains(store));
    let answers = join_all(fresh.map(|store| async move {
        let problem = match timeout(ANSWER_WITHIN, stores::open(store, next.limits)).await {
            Ok(Ok(_)) => return None,
            Ok(Err(error)) => Problem::new(format!("store {}: {}", store.name, error.message)).hint(error.hint),
            Err(_) => Problem::new(format!("store {} does not answer", store.name)),
        };
        Some(problem)
    }));
    let mut problems: Vec<Problem> = answers.await.into_iter().flatten().collect();
    if problems.is_empty() {
        problems = renamed_routes(now, next).await;
    }
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    Box::pin(discard::check(next, &routes, options)).await.map_err(|error| match error {
        RunError::Config(error) => error,
        other => Problem::new(other.to_string()).into(),
    })
}

/// Routes that would leave events behind under a new name. A store that does not answer is asked by the next relay.
async fn renamed_routes(now: &Config, next: &Config) -> Vec<Problem> {
    let leaving: Vec<&str> = now.routes.iter().map(|route| route.definition.name.as_str()).collect();
    let answers = join_all(next.stores.iter().map(|store| async {
        let opened = timeout(ANSWER_WITHIN, stores::open(store, next.limits)).await.ok()?.ok()?;
        let checked = renamed::check(store, &*opened.admin(), &next.routes_of(&store.name), &leaving).await;
        checked.err().filter(|error| !error.is_transient())
    }));
    // Only a route that no relay serves can be renamed or forgotten, and this relay goes on with the configuration it has.
    let problem = |error: postroom_core::StoreError| {
        Problem::new(error.message)
            .hint(format!("stop the relay first, because it serves the route until then; {}", error.hint))
    };
    answers.await.into_iter().flatten().map(problem).collect()
}

fn note(monitor: &Monitor, taken: bool) {
    let gauge = |metric| monitor.metrics.gauge(metric, &[]);
    gauge(&names::CONFIG_RELOAD_SUCCESS).set(if taken { 1.0 } else { 0.0 });
    if taken {
        gauge(&names::CONFIG_RELOAD_TIME).set(Timestamp::now().as_duration().as_secs_f64());
    }
}
