//! Live data, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::look::report;
use crate::http::call::Call;
use crate::http::hidden::hide;
use crate::http::listener::LiveStream;
use crate::http::problem::Problem;
use crate::status::Part;
use crate::tail;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Most events of one look; the rest come with the next.
const BATCH: usize = 200;

/// How things stand, every second.
pub(crate) async fn status(call: Call) -> Result<Response, Problem> {
    let (place, over) = (call.site.seats.take(&call.caller)?, call.site.over.clone());
    let states = stream::unfold((call, place, true), |(call, place, first)| async move {
        if !first {
            sleep(EVERY).await;
        }
        let call = call.again().await?;
        let mut report = json!(report(&call, Part::All).await);
        if !call.caller.sees_words() {
            hide(&mut report);
        }
        Some((event("status", &report), (call, place, false)))
    });
    Ok(answer(over, states))
}

/// Events as they are appended, from now on.
pub(crate) async fn events(call: Call) -> Result<Response, Problem> {
    let (place, over) = (call.site.seats.take(&call.caller)?, call.site.over.clone());
    let admin = call.admin().await?;
    let after = tail::end(&*admin).await?;
    let looks = stream::unfold((call, place, admin, after), |(call, place, admin, after)| async move {
        let call = call.again().await?;
        let (rows, after) = match tail::news(&*admin, &call.selection(), after, BATCH).await {
            Ok((rows, after)) => (rows, after),
            // The store is asked again; a stream that ended would be asked for again, too.
            Err(_) => (Vec::new(), after),
        };
        if rows.len() < BATCH {
            sleep(EVERY).await;
        }
        let told: Vec<_> = rows.iter().map(|row| event("event", row)).collect();
        Some((stream::iter(told), (call, place, admin, after)))
    });
    Ok(answer(over, looks.flatten()))
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    event.json_data(data).unwrap_or_else(|_| Event::default().comment("the event cannot be serialised"))
}

/// A stream that ends when the relay does, or its caller may no longer look.
fn answer(over: CancellationToken, events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>).take_until(over.cancelled_owned());
    let stream = Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)));
    (Extension(LiveStream), stream).into_response()
}
