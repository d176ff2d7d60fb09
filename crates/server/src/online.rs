//! What `config check --online` asks: does every store answer, and would every route's deliveries get through?

use std::time::Duration;

use futures_util::future::join_all;
use postroom_core::{Failure, Finding, StoreError};
use serde::Serialize;
use tokio::time::timeout;

use crate::config::{Config, RouteConfig, StoreConfig};
use crate::{stores, transports};

/// How long one store or destination may take to answer all questions.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How good something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// It works, but promises less than people may expect.
    Warning,
    /// It would not work.
    Problem,
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The store it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The route it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// How good it is.
    pub level: Level,
    /// A stable code; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it is.
    pub message: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Asks all stores and all routes at once; back it comes in the order of the file, stores first.
pub async fn check(config: &Config) -> Vec<Found> {
    let stores = join_all(config.stores.iter().map(|store| about_store(store, config))).await;
    let routes = join_all(config.routes.iter().map(|route| about_route(route, config))).await;
    stores.into_iter().chain(routes.into_iter().flatten()).collect()
}

async fn about_store(store: &StoreConfig, config: &Config) -> Found {
    let found =
        |level, code, message, hint| Found { store: Some(store.name.clone()), route: None, level, code, message, hint };
    let problem = |error: StoreError| {
        let code = format!("store.{}", error.operation);
        let hint = Some(error.hint).filter(|hint| !hint.is_empty());
        found(Level::Problem, Some(code), error.message, hint)
    };
    match timeout(ANSWER_WITHIN, stores::open(store, config.limits)).await {
        Ok(Ok(_)) => found(Level::Fine, None, format!("{} answers, its tables are there", store.url), None),
        Ok(Err(error)) => problem(error),
        Err(_) => {
            let message = format!("{} did not answer within {} s", store.url, ANSWER_WITHIN.as_secs());
            found(Level::Problem, Some("store.open".to_owned()), message, None)
        }
    }
}

async fn about_route(route: &RouteConfig, config: &Config) -> Vec<Found> {
    // Stores of one route differ in what they call themselves, not in where it goes.
    let Some(store) = config.stores.iter().find(|store| route.stores.contains(&store.name)) else { return Vec::new() };
    let transport = transports::build(route, store, &config.contract.contracts);
    let findings = timeout(ANSWER_WITHIN, transport.check()).await.unwrap_or_else(|_| {
        let error = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        vec![Finding::Problem(Failure::unavailable("transport.silent", error))]
    });
    transport.close().await;
    let found = |(level, code, message, hint)| Found {
        store: None,
        route: Some(route.definition.name.clone()),
        level,
        code,
        message,
        hint,
    };
    let told = |finding| match finding {
        Finding::Fine(message) => (Level::Fine, None, message, None),
        Finding::Warning(code, message, hint) => (Level::Warning, Some(code.to_owned()), message, Some(hint)),
        Finding::Problem(failure) => (Level::Problem, Some(failure.code.into_owned()), failure.error, None),
    };
    findings.into_iter().map(told).map(found).collect()
}
