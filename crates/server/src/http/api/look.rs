//! What there is and how it does; nothing here changes anything.

use std::time::Duration;

use axum::response::Response;
use postroom_admin::Role;
use postroom_admin::view::{InboxCursor, KeyCursor};
use postroom_core::{DeliveryState, Timestamp};
use serde_json::Value;

use crate::http::call::{Call, one};
use crate::http::endpoints::STATES;
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
    let admin_stores = &call.site.monitor.admin_stores;
    let mut report = status::collect(
        &config,
        part,
        |store| call.sees(store),
        |store| async move { admin_stores.admin(&store).await },
    )
    .await;
    if let Some(route) = call.given.text("route") {
        report.routes.retain(|line| line.route == route);
    }
    if !call.caller.scope.is_everything() {
        report.relays.clear();
        report.stores.clear();
    }
    report
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
    let admin = call.admin().await?;
    Ok(one(&call.route(&*admin, call.given.text("route").unwrap_or_default()).await?))
}

pub(crate) async fn events(call: Call) -> Answer {
    let admin = call.admin().await?;
    let (rows, next) = search::newest(&*admin, &call.selection(), call.given.cursor("cursor"), call.limit()).await?;
    Ok(call.page(&rows, next.map(cursor_at)))
}

pub(crate) async fn event(call: Call) -> Answer {
    let (id, with_payload) = (call.given.text("id").unwrap_or_default(), call.given.flag("payload"));
    let admin = call.admin().await?;
    let timeline = admin.event(id, false).await?.filter(|timeline| {
        call.given.text("tenant").is_none_or(|tenant| timeline.event.tenant.as_deref() == Some(tenant))
    });
    let timeline = timeline.ok_or_else(|| Problem::no_such("event", id, "events"))?;
    if !with_payload {
        return Ok(one(&timeline));
    }
    if !call.caller.may(Role::Operator, &timeline.event.store) {
        return Err(Problem::payload());
    }
    admin.note_payloads("payload.show", id, &call.actor()).await?;
    tracing::info!(event_id = id, by = call.caller.name, "payload shown");
    let mut timeline = admin.event(id, true).await?.ok_or_else(|| Problem::no_such("event", id, "events"))?;
    let redaction: &Redaction = &call.config().http.redact;
    timeline.payload = timeline.payload.map(|payload: Value| redaction.apply(&timeline.event.event_type, payload));
    Ok(one(&timeline))
}

pub(crate) async fn keys(call: Call) -> Answer {
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let after = match call.given.place("cursor").as_deref() {
        Some([position, route, key]) => {
            let position =
                position.parse().map_err(|_| Problem::parameter("cursor", MADE_UP, "a place in the list"))?;
            Some(KeyCursor { position, route: route.clone(), key: key.clone() })
        }
        _ => None,
    };
    let rows = admin.blocked_keys(call.given.text("route"), after.as_ref(), call.limit()).await?;
    let next = call.last(&rows).map(|row| place_at(&[&row.head_position.to_string(), &row.route, &row.key]));
    Ok(call.page(&rows, next))
}

pub(crate) async fn deliveries(call: Call) -> Answer {
    use DeliveryState::{Blocked, Delayed, Due, Retrying};
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let after = call.given.cursor("cursor").unwrap_or_default();
    let states = states(&call, &[Due, Retrying, Blocked, Delayed])?;
    let rows = admin.deliveries(&states, &call.selection(), after, call.limit()).await?;
    let next = call.last(&rows).map(|row| cursor_at(row.position));
    Ok(call.page(&rows, next))
}

pub(crate) async fn delivery_groups(call: Call) -> Answer {
    use DeliveryState::{Blocked, Dead, Retrying};
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let states = states(&call, &[Retrying, Blocked, Dead])?;
    Ok(one(&admin.delivery_groups(&states, &call.selection(), call.limit()).await?))
}

/// The states that are asked for.
fn states(call: &Call, otherwise: &[DeliveryState]) -> Result<Vec<DeliveryState>, Problem> {
    let Some(words) = call.given.text("state") else { return Ok(otherwise.to_vec()) };
    let state = |word: &str| {
        DeliveryState::parse(word).ok_or_else(|| Problem::parameter("state", &format!("has {word:?}"), STATES.about))
    };
    words.split(',').map(state).collect()
}

pub(crate) async fn dead(call: Call) -> Answer {
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let after = call.given.cursor("cursor").unwrap_or_default();
    let rows = admin.dead(&call.selection(), after, call.limit()).await?;
    let next = call.last(&rows).map(|row| cursor_at(row.position));
    Ok(call.page(&rows, next))
}

pub(crate) async fn groups(call: Call) -> Answer {
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    Ok(one(&admin.dead_groups(&call.selection(), call.limit()).await?))
}

/// What is in force, also after a reload.
pub(crate) async fn config(call: Call) -> Answer {
    Ok(one(&call.config().show()))
}

pub(crate) async fn throughput(call: Call) -> Answer {
    let admin = call.admin().await?;
    call.check_route(&*admin).await?;
    let from = call.given.time("from").unwrap_or_else(|| Timestamp::now() - HOUR);
    Ok(one(&admin.throughput(call.given.text("route"), from).await?))
}

pub(crate) async fn inbox(call: Call) -> Answer {
    let (consumer, id) = (call.given.text("consumer"), call.given.text("id"));
    let after = match call.given.place("cursor").as_deref() {
        Some([id, consumer]) => Some(InboxCursor { id: id.clone(), consumer: consumer.clone() }),
        _ => None,
    };
    let rows = call.admin().await?.inbox(consumer, id, after.as_ref(), call.limit()).await?;
    let next = call.last(&rows).map(|row| place_at(&[&row.id, &row.consumer]));
    Ok(call.page(&rows, next))
}

pub(crate) async fn verify(call: Call) -> Answer {
    Ok(one(&call.admin().await?.verify().await?))
}

pub(crate) async fn audit(call: Call) -> Answer {
    let rows = call.admin().await?.audit(call.given.cursor("cursor"), call.limit()).await?;
    let next = call.last(&rows).map(|row| cursor_at(row.number));
    Ok(call.page(&rows, next))
}

pub(crate) async fn tokens(call: Call) -> Answer {
    Ok(one(&call.admin().await?.tokens().await?))
}
