//! What there is and how it does; nothing here changes anything.

use std::time::Duration;

use axum::response::Response;
use postroom_core::view::{InboxPlace, KeyPlace};
use postroom_core::{Role, Timestamp};
use serde_json::Value;

use crate::http::call::{Call, one};
use crate::http::params::{MADE_UP, cursor_at, place_at};
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
    Ok(call.page(&rows, next.map(cursor_at)))
}

pub(crate) async fn event(call: Call) -> Answer {
    let (id, with_payload) = (call.given.text("id").unwrap_or_default(), call.given.flag("payload"));
    let desk = call.desk().await?;
    let timeline = desk.event(id, false).await?.ok_or_else(|| Problem::no_such("event", id, "events"))?;
    if !with_payload {
        return Ok(one(&timeline));
    }
    if !call.caller.may(Role::Operator, &timeline.event.store) {
        return Err(Problem::payload());
    }
    tracing::info!(event_id = id, by = call.caller.name, "a payload is shown");
    let mut timeline = desk.event(id, true).await?.ok_or_else(|| Problem::no_such("event", id, "events"))?;
    let redaction: &Redaction = &call.config().http.redact;
    timeline.payload = timeline.payload.map(|payload: Value| redaction.apply(&timeline.event.event_type, payload));
    Ok(one(&timeline))
}

pub(crate) async fn keys(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    let after = match call.given.place("cursor").as_deref() {
        Some([position, route, key]) => {
            let position =
                position.parse().map_err(|_| Problem::parameter("cursor", MADE_UP, "a place in the list"))?;
            Some(KeyPlace { position, route: route.clone(), key: key.clone() })
        }
        _ => None,
    };
    let rows = desk.blocked_keys(call.given.text("route"), after.as_ref(), call.limit()).await?;
    let next = call.last(&rows).map(|row| place_at(&[&row.head_position.to_string(), &row.route, &row.key]));
    Ok(call.page(&rows, next))
}

pub(crate) async fn dead(call: Call) -> Answer {
    let desk = call.desk().await?;
    call.check_route(&*desk).await?;
    let after = call.given.cursor("cursor").unwrap_or_default();
    let rows = desk.dead(&call.selection(), after, call.limit()).await?;
    let next = call.last(&rows).map(|row| cursor_at(row.position));
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
    let after = match call.given.place("cursor").as_deref() {
        Some([id, consumer]) => Some(InboxPlace { id: id.clone(), consumer: consumer.clone() }),
        _ => None,
    };
    let rows = call.desk().await?.inbox(consumer, id, after.as_ref(), call.limit()).await?;
    let next = call.last(&rows).map(|row| place_at(&[&row.id, &row.consumer]));
    Ok(call.page(&rows, next))
}

pub(crate) async fn audit(call: Call) -> Answer {
    Ok(one(&call.desk().await?.audit().await?))
}

pub(crate) async fn actions(call: Call) -> Answer {
    let rows = call.desk().await?.actions(call.given.cursor("cursor"), call.limit()).await?;
    let next = call.last(&rows).map(|row| cursor_at(row.number));
    Ok(call.page(&rows, next))
}

pub(crate) async fn tokens(call: Call) -> Answer {
    Ok(one(&call.desk().await?.tokens().await?))
}
