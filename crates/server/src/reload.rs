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
use crate::operating::Operating;
use crate::relay::{self, RunError, RunOptions};
use crate::stores;

/// How long a store that is new may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Runs until `shutdown` resolves or, draining, until nothing is left. Whatever comes through `wanted` makes it `load` anew.
pub async fn run(
    first: Config,
    options: RunOptions,
    operating: Arc<Operating>,
    mut wanted: mpsc::Receiver<()>,
    load: impl Fn() -> Result<Config, ConfigError>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let mut config = first;
    let options = RunOptions { operating: Some(Arc::clone(&operating)), ..options };
    tokio::pin!(shutdown);
    note(&operating, true);
    loop {
        let stop = CancellationToken::new();
        config = {
            let running = relay::run(&config, options.clone(), Arc::clone(&operating) as _, stop.cancelled());
            tokio::pin!(running);
            let next = tokio::select! {
                biased;
                () = &mut shutdown => None,
                ended = &mut running => return ended,
                next = another(&config, &options, &operating, &mut wanted, &load) => Some(next),
            };
            stop.cancel();
            let ended = running.await;
            let Some(next) = next else { return ended };
            ended?;
            next
        };
        operating.begin_again(&config);
        note(&operating, true);
        tracing::info!(routes = config.routes.len(), stores = config.stores.len(), "the configuration was reloaded");
    }
}

/// Waits for a configuration that will do.
async fn another(
    now: &Config,
    options: &RunOptions,
    operating: &Operating,
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
                note(operating, false);
                for problem in &error.problems {
                    tracing::error!(%problem, "the configuration was not reloaded; the one before stays");
                }
            }
        }
    }
}

/// Whether a relay can go on with this one.
async fn will_do(now: &Config, next: &Config, options: &RunOptions) -> Result<(), ConfigError> {
    relay::chosen(next, &options.routes)?;
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
    let problems: Vec<Problem> = answers.await.into_iter().flatten().collect();
    if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
}

fn note(operating: &Operating, taken: bool) {
    let gauge = |metric| operating.metrics.gauge(metric, &[]);
    gauge(&names::CONFIG_RELOAD_SUCCESS).set(if taken { 1.0 } else { 0.0 });
    if taken {
        gauge(&names::CONFIG_RELOAD_TIME).set(Timestamp::now().as_duration().as_secs_f64());
    }
}
