//! Workers in any language: they lease events of a `pull` route and say what came of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use postroom_core::metrics as names;
use postroom_pull::Queue;
use serde_json::{Value, json};

use crate::http::call::{Call, one};
use crate::http::problem::Problem;

/// Longest wait for the first event.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Shortest lease.
const LEASE_MIN: Duration = Duration::from_secs(1);

pub(crate) async fn lease(call: Call) -> Result<Response, Problem> {
    let (_, queue) = queue(&call)?;
    let most = call.given.number("limit", 100);
    let wait = call.given.duration("wait").unwrap_or_default().min(WAIT_MAX);
    let lease = call.given.duration("lease").map(|lease| lease.max(LEASE_MIN));
    let leased = tokio::select! {
        leased = queue.lease(call.caller.key(), most, wait, lease) => leased,
        () = call.site.over.cancelled() => Vec::new(),
    };
    Ok(Json(leased).into_response())
}

pub(crate) async fn settle(call: Call) -> Result<Response, Problem> {
    let (store, queue) = queue(&call)?;
    let answers = call.given.objects("results").iter().filter_map(Value::as_object).cloned().collect();
    let settled = queue.settle(call.caller.key(), answers).map_err(|(place, why)| {
        Problem::parameter(&format!("results[{place}]"), &format!("is not a result: {why}"), "no lease was settled")
    })?;
    if settled.foreign > 0 {
        call.site
            .monitor
            .metrics
            .counter(&names::PULL_FOREIGN_SETTLES, &[&store, queue.route()])
            .increment(settled.foreign as u64);
        let (caller, route, leases) = (&call.caller.name, queue.route(), settled.foreign);
        tracing::warn!(
            caller,
            route,
            leases,
            "a worker tried to settle leases of another worker; none of them was settled"
        );
    }
    Ok(one(&json!({ "settled": settled.settled, "unknown": settled.unknown })))
}

/// Where the route's events wait: in the store that is named, or the only one the caller may ask.
fn queue(call: &Call) -> Result<(String, Arc<Queue>), Problem> {
    let (route, store) = (call.given.text("route").unwrap_or_default(), call.given.text("store"));
    let all = call.site.monitor.pulls.of(route);
    let visible = all.into_iter().filter(|(name, _)| call.caller.may(call.role, name));
    let mut fits: Vec<_> = visible.filter(|(name, _)| store.is_none_or(|store| store == name)).collect();
    match (fits.pop(), fits.len()) {
        (Some(found), 0) => Ok(found),
        (None, _) => {
            Err(Problem::no_such("pull route", route, "routes").hint("this relay serves no pull route of that name"))
        }
        (Some(_), _) => Err(Problem::parameter("store", "is missing", "the route serves several stores")),
    }
}
