//! What `config check --online` asks: does every store answer, and would every route's deliveries get through?

use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::view::Found;
use postroom_core::{Failure, Finding, StoreError, StoreErrorKind, units};
use tokio::time::timeout;

use crate::config::{Config, RouteConfig, StoreConfig};
use crate::pulls::Pulls;
use crate::{stores, transports};

/// How long one store or destination may take to answer all questions.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Asks all stores and all routes at once; back it comes in the order of the file, stores first.
pub async fn check(config: &Config) -> Vec<Found> {
    let stores = join_all(config.stores.iter().map(|store| about_store(store, config)));
    let routes = join_all(config.routes.iter().map(|route| about_route(route, config)));
    let (stores, routes) = tokio::join!(stores, routes);
    stores.into_iter().chain(routes.into_iter().flatten()).collect()
}

async fn about_store(store: &StoreConfig, config: &Config) -> Found {
    let found = match timeout(ANSWER_WITHIN, stores::open(store, config.limits)).await {
        Ok(Ok(_)) => answers(store),
        Ok(Err(error)) => refusal(error),
        Err(_) => silence(store),
    };
    found.of_store(&store.name)
}

/// A store that can be used.
pub(crate) fn answers(store: &StoreConfig) -> Found {
    Found::fine(format!("{} answers, its tables are there", store.url))
}

/// A store that says nothing.
pub(crate) fn silence(store: &StoreConfig) -> Found {
    let message = format!("{} did not answer within {} s", store.url, ANSWER_WITHIN.as_secs());
    Found::problem("store.unreachable", message)
}

/// What a store says instead of an answer.
pub(crate) fn refusal(error: StoreError) -> Found {
    use StoreErrorKind as K;
    let code = match error.kind {
        K::Unreachable => "store.unreachable",
        K::Busy => "store.busy",
        K::NotAStore => "store.not_a_store",
        K::Refused => "store.refused",
        K::Schema => "store.schema",
        K::Invalid => "store.invalid",
        K::NotFound => "store.not_found",
        K::Conflict => "store.conflict",
        K::Full | K::LateWriteLock | K::CommitUnknown | K::Other => "store.failed",
    };
    Found::problem(code, error.message).hint(error.hint)
}

/// Whether deliveries of a route would get through.
pub(crate) async fn about_route(route: &RouteConfig, config: &Config) -> Vec<Found> {
    // Stores of one route differ in what they call themselves, not in where it goes.
    let Some(store) = config.stores.iter().find(|store| route.stores.contains(&store.name)) else { return Vec::new() };
    let transport = transports::build(config, route, store, &Pulls::default());
    let findings = timeout(ANSWER_WITHIN, transport.check()).await.unwrap_or_else(|_| {
        let error = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        vec![Finding::Problem(Failure::unavailable("transport.silent", error))]
    });
    transport.close().await;
    let again = again_within(route, config);
    findings.into_iter().map(|finding| told(finding, again).of_route(&route.definition.name)).collect()
}

/// How long after its first try an event of a route may be sent again without anybody's doing.
pub(crate) fn again_within(route: &RouteConfig, config: &Config) -> Duration {
    config.relay.lease.saturating_add(route.retry.horizon())
}

fn told(finding: Finding, again: Duration) -> Found {
    match finding {
        Finding::Fine(message) => Found::fine(message),
        Finding::Warning(code, message, hint) => Found::warning(code, message).hint(hint),
        Finding::Problem(failure) => Found::problem(failure.code, failure.error),
        Finding::Remembers { what, lasts, .. } if lasts >= again => {
            let lasts = units::format_duration(lasts);
            Found::fine(format!("{what} remembers ids for {lasts}: a second copy within that is not stored"))
        }
        Finding::Remembers { code, what, lasts, mend } => {
            let (lasts, again) = (units::format_duration(lasts), in_minutes(again));
            let message = format!(
                "{what} remembers ids for {lasts} only, but lease and retries of this route take up to {again}"
            );
            Found::warning(code, message)
                .hint("an event sent again later is stored twice, which consumers without an inbox take for two")
                .mend(format!("{mend}{again}"))
        }
    }
}

/// In whole minutes, rounded up: nobody sets a window to the millisecond.
pub(crate) fn in_minutes(time: Duration) -> String {
    format!("{}m", time.as_secs().div_ceil(60).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_long_enough_when_it_outlasts_lease_and_retries() {
        let remembers = |seconds| Finding::Remembers {
            code: "nats.duplicate_window",
            what: "stream orders".to_owned(),
            lasts: Duration::from_secs(seconds),
            mend: "nats stream edit orders --dupe-window=".to_owned(),
        };
        let again = Duration::from_secs(2338);
        assert_eq!(told(remembers(2338), again).code, None);
        let short = told(remembers(120), again);
        assert_eq!(short.code.as_deref(), Some("nats.duplicate_window"));
        assert_eq!(
            short.message,
            "stream orders remembers ids for 2m only, but lease and retries of this route take up to 39m"
        );
        assert_eq!(short.mend.as_deref(), Some("nats stream edit orders --dupe-window=39m"));
    }
}
