//! Health and metrics, for machines that watch machines.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Site;
use super::problem::Problem;
use crate::config::extended;

/// Whether the engines go round.
pub(super) async fn livez(State(site): State<Arc<Site>>, query: RawQuery, headers: HeaderMap) -> Response {
    let alive = site.monitor.health.alive().map_err(|why| vec![why]);
    answer(&site, alive, &query, &headers).await
}

/// Whether events move.
pub(super) async fn readyz(State(site): State<Arc<Site>>, query: RawQuery, headers: HeaderMap) -> Response {
    answer(&site, site.monitor.health.moving(), &query, &headers).await
}

/// Everybody learns whether; who may read metrics also learns why, with `?verbose`.
async fn answer(
    site: &Site,
    result: Result<(), Vec<String>>,
    RawQuery(query): &RawQuery,
    headers: &HeaderMap,
) -> Response {
    let status = if result.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verbose = query.as_deref().is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    if !verbose {
        return (status, if result.is_ok() { "ok\n" } else { "not ok\n" }).into_response();
    }
    if let Err(problem) = site.guard.may_read_metrics(headers, &site.monitor.admin_stores).await {
        return problem.into_response();
    }
    let mut lines = vec![if result.is_ok() { "ok" } else { "not ok" }.to_owned()];
    lines.extend(result.err().unwrap_or_default());
    for route in site.monitor.health.routes() {
        let state = route.health.state.as_str();
        let oldest = route.oldest_due.as_secs_f64();
        lines.push(format!("route {} of store {}: {state}, oldest due {oldest:.1} s", route.route, route.store));
    }
    (status, lines.join("\n") + "\n").into_response()
}

/// As Prometheus reads them.
pub(super) async fn metrics(State(site): State<Arc<Site>>, headers: HeaderMap) -> Result<Response, Problem> {
    site.guard.may_read_metrics(&headers, &site.monitor.admin_stores).await?;
    let text = extended(site.monitor.metrics.text(), &site.aliases, &site.monitor.kinds());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// As HoldCo's users ask: the publisher's status, for everybody. Problems quote what databases and brokers say, so they need the
/// token.
pub(super) async fn health(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let moving = site.monitor.health.moving();
    let status = if moving.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let routes: Vec<Value> = site
        .monitor
        .health
        .routes()
        .iter()
        .map(|route| {
            json!({
                "store": route.store,
                "route": route.route,
                "state": route.health.state.as_str(),
                "oldest_due_seconds": route.oldest_due.as_secs_f64(),
            })
        })
        .collect();
    let mut body = json!({
        "status": if moving.is_ok() { "ok" } else { "error" },
        "outbox": { "routes": routes },
    });
    if site.guard.may_read_metrics(&headers, &site.monitor.admin_stores).await.is_ok() {
        body["outbox"]["problems"] = json!(moving.err().unwrap_or_default());
    }
    (status, Json(body)).into_response()
}
