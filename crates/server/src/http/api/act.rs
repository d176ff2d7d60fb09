//! What an operator does over HTTP: the same as by command, with the token's name in the audit.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postroom_core::{NewToken, Timestamp};
use serde_json::json;

use crate::http::call::{Call, one};
use crate::http::problem::Problem;
use crate::token;

type Answer = Result<Response, Problem>;

pub(crate) async fn pause(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let changed = call.desk().await?.pause(&route, &call.actor()).await?;
    Ok(one(&json!({ "route": route, "state": "paused", "changed": changed })))
}

pub(crate) async fn resume(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let changed = call.desk().await?.resume(&route, &call.actor()).await?;
    Ok(one(&json!({ "route": route, "state": "running", "changed": changed })))
}

pub(crate) async fn forget(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let desk = call.desk().await?;
    let detail = call.route(&*desk, &route).await?;
    if !call.given.flag("dry_run") {
        desk.forget(&route, &call.actor()).await?;
    }
    Ok(one(&detail.status))
}

pub(crate) async fn unblock(call: Call) -> Answer {
    let (route, key) = key(&call);
    let waiting = call.desk().await?.unblock(&route, &key, &call.actor()).await?;
    Ok(one(&json!({ "route": route, "key": key, "unblocked": waiting })))
}

/// Gives up the head that the caller saw: another one may stand there by now, and nobody gave that up.
pub(crate) async fn skip_head(call: Call) -> Answer {
    let ((route, key), seen) = (key(&call), call.given.text("head").unwrap_or_default());
    let desk = call.desk().await?;
    let blocked = desk.blocked_keys(Some(&route), None, KEYS_MAX).await?;
    let head =
        blocked.into_iter().find(|row| row.key == key).ok_or_else(|| Problem::no_such("blocked key", &key, "keys"))?;
    if head.head_id != seen {
        let detail = format!("the head of key {key:?} is event {:?} now", head.head_id);
        return Err(Problem::new(StatusCode::CONFLICT, "http.conflict", detail).hint("look again, then decide"));
    }
    if !call.given.flag("dry_run") {
        desk.skip_head(&route, &key, &call.actor()).await?;
    }
    Ok(one(&json!({ "route": route, "key": key, "skipped": head.head_id, "waiting": head.waiting })))
}

/// Most blocked keys looked through to find one.
const KEYS_MAX: usize = 10_000;

fn key(call: &Call) -> (String, String) {
    (call.given.owned("route").unwrap_or_default(), call.given.owned("key").unwrap_or_default())
}

pub(crate) async fn discard(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    let which = call.selection();
    let preview = desk.discard_dead(&which, true, &call.actor()).await?;
    if call.given.flag("dry_run") {
        return Ok(one(&preview));
    }
    call.confirmed(preview.deliveries)?;
    Ok(one(&desk.discard_dead(&which, false, &call.actor()).await?))
}

pub(crate) async fn forget_inbox(call: Call) -> Answer {
    let (consumer, id) = (call.given.text("consumer").unwrap_or_default(), call.given.text("id").unwrap_or_default());
    let forgotten = call.desk().await?.forget_inbox(consumer, id, &call.actor()).await?;
    Ok(one(&json!({ "consumer": consumer, "id": id, "forgotten": forgotten })))
}

pub(crate) async fn make_token(call: Call) -> Answer {
    let token = token::fresh()
        .map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.store", error.to_string()))?;
    let (name, role) = (call.given.owned("name").unwrap_or_default(), call.given.role("role"));
    let Some(role) = role.filter(|_| postroom_core::valid_name(&name)) else {
        return Err(Problem::parameter("name", "cannot be a name", "use lower-case letters, digits, `-`, `_` and `.`"));
    };
    let Ok(expires_at) = call.given.duration("expires").map(|after| Timestamp::now().checked_add(after)).transpose()
    else {
        return Err(Problem::parameter("expires", "is further away than any calendar goes", "leave it out for never"));
    };
    let new = NewToken { name, role, expires_at, hash: token::hash(&token) };
    let row = call.desk().await?.add_token(&new, &call.actor()).await?;
    let mut body = json!(row);
    body["token"] = json!(token);
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(crate) async fn revoke_token(call: Call) -> Answer {
    let name = call.given.owned("name").unwrap_or_default();
    call.desk().await?.revoke_token(&name, &call.actor()).await?;
    Ok(one(&json!({ "name": name, "revoked": true })))
}
