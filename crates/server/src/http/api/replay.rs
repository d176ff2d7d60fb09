//! Sending again: what was sent, sends, and will. A relay does the steps; here they are asked for and stopped.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use postroom_admin::view::{ReplayKind, ReplayState};
use postroom_admin::{ReplayChange, ReplayOrder};
use serde_json::json;

use crate::http::call::{Call, one};
use crate::http::problem::Problem;

type Answer = Result<Response, Problem>;

pub(crate) async fn list(call: Call) -> Answer {
    let state = call.given.text("state").and_then(ReplayState::parse);
    Ok(one(&call.admin().await?.replays(state, call.limit()).await?))
}

pub(crate) async fn show(call: Call) -> Answer {
    let id = call.given.text("id").unwrap_or_default();
    let row = call.admin().await?.replay(id).await?;
    row.map(|row| one(&row)).ok_or_else(|| Problem::no_such("replay", id, "replays"))
}

pub(crate) async fn settled(call: Call) -> Answer {
    begin(&call, ReplayKind::Settled).await
}

pub(crate) async fn dead(call: Call) -> Answer {
    begin(&call, ReplayKind::Dead).await
}

/// Counts; and begins, if that is what the caller expects.
async fn begin(call: &Call, what: ReplayKind) -> Answer {
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let (which, window) = (call.selection(), call.config().retention.inbox);
    let preview = admin.preview_replay(what, &which, window).await?;
    if call.given.flag("dry_run") {
        return Ok(one(&preview));
    }
    let allow_duplicates = call.given.flag("allow_duplicates");
    if what == ReplayKind::Settled && preview.older_than_inbox > 0 && !allow_duplicates {
        let detail = format!(
            "{} of {} deliveries are older than the inbox remembers: consumers could do their work twice",
            preview.older_than_inbox, preview.deliveries
        );
        return Err(Problem::new(StatusCode::CONFLICT, "http.older_than_inbox", detail)
            .hint("narrow the selection with `from`, or send `\"allow_duplicates\": true`"));
    }
    call.confirmed(preview.deliveries, "deliveries")?;
    let rate = call.given.rate("rate");
    let order = ReplayOrder { what, which, rate, allow_duplicates, total: preview.deliveries };
    let row = admin.start_replay(&order, &call.actor()).await?;
    Ok((StatusCode::CREATED, Json(row)).into_response())
}

pub(crate) async fn pause(call: Call) -> Answer {
    change(&call, ReplayChange::Pause).await
}

pub(crate) async fn resume(call: Call) -> Answer {
    change(&call, ReplayChange::Resume).await
}

pub(crate) async fn cancel(call: Call) -> Answer {
    change(&call, ReplayChange::Cancel).await
}

async fn change(call: &Call, change: ReplayChange) -> Answer {
    let id = call.given.text("id").unwrap_or_default();
    let changed = call.admin().await?.change_replay(id, change, &call.actor()).await?;
    Ok(one(&json!({ "id": id, "state": change.to().as_str(), "changed": changed })))
}
