//! What `config check` finds: settings that work and are risky, and with `--online` the answers to: does every store answer, and would every route's deliveries get through?

use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::{Diagnostic, DuplicateWindow, Failure, StoreError, StoreErrorKind, units};
use tokio::time::timeout;

use crate::config::{Config, RouteConfig, StoreConfig};
use crate::doctor::with_next_step;
use crate::pulls::Pulls;
use crate::{stores, transports};

/// How long one store or destination may take to answer all questions.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Asks all stores and all routes at once; back it comes in the order of the file, stores first.
pub async fn check(config: &Config) -> Vec<Diagnostic> {
    let stores = join_all(config.stores.iter().map(|store| about_store(store, config)));
    let routes = join_all(config.routes.iter().map(|route| about_route(route, config)));
    let (stores, routes) = tokio::join!(stores, routes);
    stores.into_iter().chain(routes.into_iter().flatten()).map(with_next_step).collect()
}

/// Returns what is risky about a configuration that can be used, without connecting to anything.
pub fn warnings(config: &Config) -> Vec<Diagnostic> {
    config.routes.iter().flat_map(risks).map(with_next_step).collect()
}

fn risks(route: &RouteConfig) -> impl Iterator<Item = Diagnostic> {
    route.to.warnings(&route.envelope).into_iter().map(|found| found.of_route(&route.definition.name))
}

async fn about_store(store: &StoreConfig, config: &Config) -> Diagnostic {
    let found = match timeout(ANSWER_WITHIN, stores::open(store, config.limits)).await {
        Ok(Ok(_)) => answers(store),
        Ok(Err(error)) => refusal(error),
        Err(_) => silence(store),
    };
    found.of_store(&store.name)
}

/// A store that can be used.
pub(crate) fn answers(store: &StoreConfig) -> Diagnostic {
    Diagnostic::fine(format!("{} answers, and its tables exist", store.url))
}

/// A store that says nothing.
pub(crate) fn silence(store: &StoreConfig) -> Diagnostic {
    let message = format!("{} did not answer within {} s", store.url, ANSWER_WITHIN.as_secs());
    Diagnostic::problem("store.unreachable", message)
}

/// What a store says instead of an answer.
pub(crate) fn refusal(error: StoreError) -> Diagnostic {
    use StoreErrorKind as K;
    let code = match error.kind {
        K::Unreachable => "store.unreachable",
        K::Busy => "store.busy",
        K::UnexpectedSchema => "store.not_a_store",
        K::PermissionDenied => "store.refused",
        K::Schema => "store.schema",
        K::Invalid => "store.invalid",
        K::NotFound => "store.not_found",
        K::Conflict => "store.conflict",
        _ => "store.failed",
    };
    Diagnostic::problem(code, error.message).hint(error.hint)
}

/// Whether deliveries of a route would get through.
pub(crate) async fn about_route(route: &RouteConfig, config: &Config) -> Vec<Diagnostic> {
    // Stores of one route differ in what they call themselves, not in where it goes.
    let Some(store) = config.stores.iter().find(|store| route.stores.contains(&store.name)) else { return Vec::new() };
    let transport = transports::build(config, route, store, &Pulls::default());
    let findings = timeout(ANSWER_WITHIN, transport.check()).await.unwrap_or_else(|_| {
        let error = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        vec![Diagnostic::from(Failure::unavailable("transport.silent", error))]
    });
    transport.close().await;
    let again = again_within(route, config);
    let findings = findings.into_iter().map(|finding| judged(finding, again).of_route(&route.definition.name));
    findings.chain(risks(route)).collect()
}

/// How long after its first try an event of a route may be sent again without anybody's doing.
pub(crate) fn again_within(route: &RouteConfig, config: &Config) -> Duration {
    config.relay.lease.saturating_add(route.retry.horizon())
}

/// Makes a warning of a window that events sent again may outlast.
fn judged(found: Diagnostic, again: Duration) -> Diagnostic {
    let Some(DuplicateWindow { code, what, lasts, fix }) =
        found.duplicate_window.as_ref().filter(|window| window.lasts < again)
    else {
        return found;
    };
    let (lasts, again) = (units::format_duration(*lasts), in_minutes(again));
    let message = format!("{what} keeps ids for {lasts} only, but lease and retries of this route take up to {again}");
    Diagnostic::warning(*code, message)
        .hint("an event sent again later is stored twice, and consumers without an inbox process it twice")
        .fix(format!("{fix}{again}"))
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
        let remembers = |seconds| {
            Diagnostic::recognises(DuplicateWindow {
                code: "nats.duplicate_window",
                what: "stream orders".to_owned(),
                lasts: Duration::from_secs(seconds),
                fix: "nats stream edit orders --dupe-window=".to_owned(),
            })
        };
        let again = Duration::from_secs(2338);
        assert_eq!(judged(remembers(2338), again).code, None);
        let short = judged(remembers(120), again);
        assert_eq!(short.code.as_deref(), Some("nats.duplicate_window"));
        assert_eq!(
            short.message,
            "stream orders keeps ids for 2m only, but lease and retries of this route take up to 39m"
        );
        assert_eq!(short.fix.as_deref(), Some("nats stream edit orders --dupe-window=39m"));
    }
}
