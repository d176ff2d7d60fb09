//! What an operator does over HTTP: the same as by command, with the token's name in the audit.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postroom_admin::{NewToken, Role, Scope, TokenRow, Undelivered};
use postroom_core::Timestamp;
use serde_json::json;

use crate::http::call::{Call, one};
use crate::http::problem::Problem;
use crate::token;

type Answer = Result<Response, Problem>;

pub(crate) async fn pause(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let changed = call.admin().await?.pause(&route, &call.actor()).await?;
    Ok(one(&json!({ "route": route, "state": "paused", "changed": changed })))
}

pub(crate) async fn resume(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let changed = call.admin().await?.resume(&route, &call.actor()).await?;
    Ok(one(&json!({ "route": route, "state": "running", "changed": changed })))
}

pub(crate) async fn probe(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let admin = call.admin().await?;
    let changed = admin.probe(&route, &call.actor()).await?;
    let state = call.route(&*admin, &route).await?.status.state;
    Ok(one(&json!({ "route": route, "state": state, "changed": changed })))
}

pub(crate) async fn rename(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let to = call.given.owned("to").unwrap_or_default();
    let admin = call.admin().await?;
    let mut detail = call.route(&*admin, &route).await?;
    if !call.given.flag("dry_run") {
        admin.rename(&route, &to, &call.actor()).await?;
        detail = call.route(&*admin, &to).await?;
    }
    Ok(one(&detail.status))
}

pub(crate) async fn forget(call: Call) -> Answer {
    let route = call.given.owned("route").unwrap_or_default();
    let admin = call.admin().await?;
    let detail = call.route(&*admin, &route).await?;
    if !call.given.flag("dry_run") {
        let left = Undelivered::of(&*admin, &detail.status).await?;
        if left.deliveries() > FORGOTTEN_MAX || !left.is_exact() {
            call.confirmed(left.deliveries(), "undelivered events")?;
        }
        admin.forget(&route, &call.actor()).await?;
    }
    Ok(one(&detail.status))
}

/// Undelivered events that a route loses without a confirmation of their number.
const FORGOTTEN_MAX: u64 = 1_000;

pub(crate) async fn unblock(call: Call) -> Answer {
    let (route, key) = key(&call);
    let waiting = call.admin().await?.unblock(&route, &key, &call.actor()).await?;
    Ok(one(&json!({ "route": route, "key": key, "unblocked": waiting })))
}

/// Gives up the head that the caller saw: another one may stand there by now, and nobody gave that up.
pub(crate) async fn skip_head(call: Call) -> Answer {
    let ((route, key), seen) = (key(&call), call.given.text("head").unwrap_or_default());
    let admin = call.admin().await?;
    let blocked = admin.blocked_keys(Some(&route), None, KEYS_MAX).await?;
    let head =
        blocked.into_iter().find(|row| row.key == key).ok_or_else(|| Problem::no_such("blocked key", &key, "keys"))?;
    if head.head_id != seen {
        let detail = format!("the head of key {key:?} is event {:?} now", head.head_id);
        return Err(
            Problem::new(StatusCode::CONFLICT, "http.conflict", detail).hint("read the current state, then decide")
        );
    }
    if !call.given.flag("dry_run") {
        admin.skip_head(&route, &key, &call.actor()).await?;
    }
    Ok(one(&json!({ "route": route, "key": key, "skipped": head.head_id, "waiting": head.waiting })))
}

/// Most blocked keys looked through to find one.
const KEYS_MAX: usize = 10_000;

fn key(call: &Call) -> (String, String) {
    (call.given.owned("route").unwrap_or_default(), call.given.owned("key").unwrap_or_default())
}

pub(crate) async fn discard(call: Call) -> Answer {
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let mut which = call.selection();
    let preview = admin.discard_dead(&which, true, &call.actor()).await?;
    if call.given.flag("dry_run") {
        return Ok(one(&preview));
    }
    call.confirmed(preview.deliveries, "deliveries")?;
    which.died_by = preview.died_by;
    Ok(one(&admin.discard_dead(&which, false, &call.actor()).await?))
}

pub(crate) async fn erase(call: Call) -> Answer {
    let (key, undelivered) = (call.given.owned("key").unwrap_or_default(), call.given.flag("undelivered"));
    let (admin, actor) = (call.admin().await?, call.actor());
    let preview = admin.erase_payloads(&key, undelivered, true, &actor).await?;
    if call.given.flag("dry_run") {
        return Ok(one(&preview));
    }
    call.confirmed(preview.events, "payloads")?;
    Ok(one(&admin.erase_payloads(&key, undelivered, false, &actor).await?))
}

pub(crate) async fn forget_inbox(call: Call) -> Answer {
    let (consumer, id) = (call.given.text("consumer").unwrap_or_default(), call.given.text("id").unwrap_or_default());
    let forgotten = call.admin().await?.forget_inbox(consumer, id, &call.actor()).await?;
    Ok(one(&json!({ "consumer": consumer, "id": id, "forgotten": forgotten })))
}

pub(crate) async fn make_token(call: Call) -> Answer {
    let name = call.given.owned("name").unwrap_or_default();
    let role = call.given.role("role").unwrap_or(Role::Viewer);
    let scope = Scope { routes: call.given.texts("routes"), tenant: call.given.owned("only_tenant") };
    token::check(&name, role, &scope).map_err(|(why, hint)| Problem::parameter("name", why, hint))?;
    let after = match call.given.text("expires") {
        Some("never") => None,
        _ => Some(call.given.duration("expires").unwrap_or(token::EXPIRES_AFTER)),
    };
    let Ok(expires_at) = after.map(|after| Timestamp::now().checked_add(after)).transpose() else {
        return Err(Problem::parameter("expires", "is too far in the future", "use `never`"));
    };
    let secret = secret()?;
    let new = NewToken { name, role, expires_at, scope, hash: token::hash(&secret) };
    let row = call.admin().await?.add_token(&new, &call.actor()).await?;
    Ok(with_secret(&row, &secret))
}

pub(crate) async fn rotate_token(call: Call) -> Answer {
    let name = call.given.owned("name").unwrap_or_default();
    let keep = call.given.duration("keep").unwrap_or(token::KEPT_AFTER_ROTATION);
    let secret = secret()?;
    let row = call.admin().await?.rotate_token(&name, &token::hash(&secret), keep, &call.actor()).await?;
    Ok(with_secret(&row, &secret))
}

fn secret() -> Result<String, Problem> {
    token::fresh().map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.store", error.to_string()))
}

/// The one answer that shows a secret.
fn with_secret(row: &TokenRow, secret: &str) -> Response {
    let mut body = json!(row);
    body["token"] = json!(secret);
    (StatusCode::CREATED, Json(body)).into_response()
}

pub(crate) async fn revoke_token(call: Call) -> Answer {
    let name = call.given.owned("name").unwrap_or_default();
    call.admin().await?.revoke_token(&name, &call.actor()).await?;
    Ok(one(&json!({ "name": name, "revoked": true })))
}
