//! What there is and how it does; nothing here changes anything.

use std::time::Duration;

use axum::response::Response;
use postroom_core::{Role, Timestamp};
use serde_json::Value;

use crate::http::call::{Call, one};
use crate::http::problem::Problem;
use crate::redact::Redaction;
use crate::search;
use crate::status::{self, Part, Report};

/// What is shown of a route where nobody says since when.
const HOUR: Duration = Duration::from_hours(1);

type Answer = Result<Response, Problem>;

pub(crate) async fn report(call: &Call, part: Part) -> Report {
    let config = call.config();
    let desks = &call.site.operating.desks;
    status::collect(&config, part, |store| call.sees(store), |store| async move { desks.desk(&store).await }).await
}

pub(crate) async fn status(call: Call) -> Answer {
    Ok(one(&report(&call, Part::All).await))
}

pub(crate) async fn routes(call: Call) -> Answer {
    Ok(one(&report(&call, Part::Routes).await.routes))
}

pub(crate) async fn relays(call: Call) -> Answer {
    Ok(one(&report(&call, Part::Relays).await.relays))
}

pub(crate) async fn stores(call: Call) -> Answer {
    Ok(one(&report(&call, Part::Stores).await.stores))
}

pub(crate) async fn route(call: Call) -> Answer {
    let desk = call.desk().await?;
    Ok(one(&call.route(&*desk, call.given.text("route").unwrap_or_default()).await?))
}

pub(crate) async fn events(call: Call) -> Answer {
    let desk = call.desk().await?;
    let (rows, next) = search::newest(&*desk, &call.selection(), call.given.cursor("cursor"), call.limit()).await?;
    Ok(call.page(&rows, next))
}

pub(crate) async fn event(call: Call) -> Answer {
    let (id, with_payload) = (call.given.text("id").unwrap_or_default(), call.given.flag("payload"));
    let desk = call.desk().await?;
    let timeline = desk.event(id, false).await?.ok_or_else(|| Problem::no_such("event", id))?;
    if !with_payload {
        return Ok(one(&timeline));
    }
    if !call.caller.may(Role::Operator, &timeline.event.store) {
        return Err(Problem::payload());
    }
    tracing::info!(event_id = id, by = call.caller.name, "a payload is shown");
    let mut timeline = desk.event(id, true).await?.ok_or_else(|| Problem::no_such("event", id))?;
    let redaction: &Redaction = &call.config().http.redact;
    timeline.payload = timeline.payload.map(|payload: Value| redaction.apply(&timeline.event.event_type, payload));
    Ok(one(&timeline))
}

pub(crate) async fn keys(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    Ok(one(&desk.blocked_keys(call.given.text("route"), call.limit()).await?))
}

pub(crate) async fn dead(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    let after = call.given.cursor("cursor").unwrap_or_default();
    let rows = desk.dead(&call.selection(), after, call.limit()).await?;
    let next = rows.last().filter(|_| rows.len() >= call.limit()).map(|row| row.position);
    Ok(call.page(&rows, next))
}

pub(crate) async fn groups(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    Ok(one(&desk.dead_groups(&call.selection(), call.limit()).await?))
}

pub(crate) async fn minutes(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    let from = call.given.time("from").unwrap_or_else(|| Timestamp::now() - HOUR);
    Ok(one(&desk.minutes(call.given.text("route"), from).await?))
}

pub(crate) async fn inbox(call: Call) -> Answer {
    let (consumer, id) = (call.given.text("consumer"), call.given.text("id"));
    Ok(one(&call.desk().await?.inbox(consumer, id, call.limit()).await?))
}

pub(crate) async fn audit(call: Call) -> Answer {
    Ok(one(&call.desk().await?.audit().await?))
}

pub(crate) async fn actions(call: Call) -> Answer {
    Ok(one(&call.desk().await?.actions(call.limit()).await?))
}

pub(crate) async fn tokens(call: Call) -> Answer {
    Ok(one(&call.desk().await?.tokens().await?))
}
