//! `postroom event show`: where is my event? Its whole story, in plain words.

use std::fmt::Write as _;
use std::time::Duration;

use postroom_core::view::{RouteTimeline, Timeline};
use postroom_core::{Desk, Page, Selection};

use crate::app::App;
use crate::args::{StoreArg, help};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::plain;
use crate::{suggest, when};

/// Longest text of a value in a line; JSON has the whole.
const CHARS_MAX: usize = 200;

/// Say where an event is, and why: every try on every route, and who accepted it
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom event show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
    "postroom event show order-7-placed --payload -o json",
))]
pub(crate) struct ShowArgs {
    /// The event's id
    #[arg(value_name = "ID")]
    id: String,
    /// Show the payload too
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &ShowArgs) -> Outcome {
    let config = app.config()?;
    let desk = app.open(&config, &args.store).await?.desk();
    let timeline = find(&*desk, &args.id, args.payload).await?;
    app.global.output.one(&timeline, || render(&timeline))?;
    Ok(Exit::Done)
}

/// The event's story, or an error that offers the nearest of the latest ids.
pub(crate) async fn find(desk: &dyn Desk, id: &str, with_payload: bool) -> Result<Timeline, Failed> {
    if let Some(timeline) = desk.event(id, with_payload).await? {
        return Ok(timeline);
    }
    let latest = desk.events(&Selection::default(), Page::Newest { before: None, above: 0, limit: 200 }).await?;
    let known: Vec<String> = latest.into_iter().map(|row| row.id).collect();
    Err(suggest::unknown("event", id, &known, "list what there is: `postroom event ls`; it may have been pruned"))
}

/// The story as text.
pub(crate) fn render(timeline: &Timeline) -> String {
    let event = &timeline.event;
    let mut text = plain(&event.event_type, CHARS_MAX);
    for (name, value) in [("key", &event.key), ("tenant", &event.tenant)] {
        if let Some(value) = value {
            let _ = write!(text, "  {name} {}", plain(value, CHARS_MAX));
        }
    }
    let day = when::seconds(event.appended_at);
    let day = day.split('T').next().unwrap_or_default();
    let _ = write!(text, "  position {}  appended {day} {}", event.position, when::clock(event.appended_at));
    let routes = timeline.routes.iter().map(|r| r.route.len()).max().unwrap_or(0);
    let width = routes.max("inbox".len());
    for route in &timeline.routes {
        let mut name = route.route.as_str();
        for line in lines(route, &event.id) {
            let _ = write!(text, "\n  {name:width$} {line}");
            name = "";
        }
    }
    if timeline.routes.is_empty() {
        text.push_str("\n  no route is registered, so nobody gets it yet");
    }
    let accepted: Vec<String> = timeline
        .inbox
        .iter()
        .map(|row| format!("accepted by {} {}", plain(&row.consumer, CHARS_MAX), when::clock(row.accepted_at)))
        .collect();
    if !accepted.is_empty() {
        let _ = write!(text, "\n  {:width$} {}", "inbox", accepted.join(", "));
    }
    if !timeline.same_id_at.is_empty() {
        let at: Vec<String> = timeline.same_id_at.iter().map(ToString::to_string).collect();
        let _ = write!(text, "\n  the same id also stands at position {}", at.join(", "));
    }
    if let Some(payload) = &timeline.payload {
        let shown = payload.as_str().map_or_else(|| payload.to_string(), str::to_owned);
        let _ = write!(text, "\n  payload {}", plain(&shown, usize::MAX));
    }
    text
}

/// Every failed try, then where it stands.
fn lines(route: &RouteTimeline, id: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for tried in &route.attempts {
        let took = when::age(Duration::from_millis(tried.took_ms));
        let (code, error) = (plain(&tried.code, CHARS_MAX), plain(&tried.error, CHARS_MAX));
        lines.push(format!("✗ attempt {}  {}  {code}: {error}  ({took})", tried.attempt, when::clock(tried.at)));
        for handler in &tried.handlers {
            let (name, error) = (plain(&handler.handler, CHARS_MAX), plain(&handler.error, CHARS_MAX));
            lines.push(format!("  └ handler {name}: {error}"));
        }
    }
    let due = route.due_at.map(when::seconds).unwrap_or_default();
    lines.push(match route.state {
        "delivered" => {
            let at = route.delivered_at.map(|t| format!("  {}", when::clock(t))).unwrap_or_default();
            let receipt = route.receipt.as_ref().map(|r| format!("  {}", plain(r, CHARS_MAX))).unwrap_or_default();
            format!("✓ delivered{at}{receipt}")
        }
        "due" => "… due now, waiting for a relay".to_owned(),
        "retrying" => format!("… retrying   next {due}"),
        "blocked" => {
            let head = route.blocked_by.as_deref().unwrap_or("an earlier event");
            format!("… blocked    waits behind {} of its key", plain(head, CHARS_MAX))
        }
        "delayed" => format!("… delayed    not before {due}"),
        "dead" => format!("✗ dead letter: not tried again by itself   postroom dead replay {}", plain(id, CHARS_MAX)),
        "filtered" => "– not wanted by this route".to_owned(),
        "discarded" => "– discarded by an operator".to_owned(),
        "before_start" => "– appended before this route started".to_owned(),
        other => other.to_owned(),
    });
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use postroom_core::view::{AttemptRow, EventRow, InboxRow};

    use super::*;

    fn at(text: &str) -> jiff::Timestamp {
        format!("2026-11-15T14:{text}Z").parse().unwrap()
    }

    fn route(name: &str, state: &'static str) -> RouteTimeline {
        RouteTimeline {
            route: name.into(),
            state,
            delivered_at: None,
            receipt: None,
            due_at: None,
            blocked_by: None,
            attempts: Vec::new(),
        }
    }

    fn story(routes: Vec<RouteTimeline>) -> Timeline {
        let event = EventRow {
            store: "main".into(),
            position: 12,
            id: "e-1".into(),
            event_type: "order.placed".into(),
            key: Some("order-42".into()),
            aggregate_type: None,
            aggregate_id: None,
            tenant: Some("acme".into()),
            occurred_at: at("01:07.100"),
            available_at: None,
            appended_at: at("01:07.120"),
            payload_bytes: 9,
        };
        Timeline {
            event,
            lane: 0,
            content_type: "application/json".into(),
            correlation_id: "e-1".into(),
            causation_id: None,
            schema_version: 1,
            headers: BTreeMap::new(),
            attributes: BTreeMap::new(),
            payload: None,
            routes,
            inbox: Vec::new(),
            same_id_at: Vec::new(),
        }
    }

    #[test]
    fn the_story_is_told_in_plain_words() {
        let failed = |attempt, time| AttemptRow {
            attempt,
            at: at(time),
            outcome: "transient".into(),
            code: "exec.error".into(),
            error: "mail server\nsays no".into(),
            took_ms: 8100,
            handlers: Vec::new(),
        };
        let mut story = story(vec![
            RouteTimeline {
                delivered_at: Some(at("01:07.164")),
                receipt: Some("line 7".into()),
                ..route("orders", "delivered")
            },
            RouteTimeline {
                due_at: Some(at("07:51")),
                attempts: vec![failed(1, "02:40.5"), failed(2, "02:51.9")],
                ..route("partners", "retrying")
            },
            RouteTimeline { blocked_by: Some("e-0".into()), ..route("billing", "blocked") },
            route("mailer", "dead"),
            route("search", "filtered"),
        ]);
        let accepted = |consumer: &str, time| InboxRow {
            store: "main".into(),
            consumer: consumer.into(),
            id: "e-1".into(),
            accepted_at: at(time),
        };
        story.inbox = vec![accepted("search-index", "01:07.201"), accepted("mailer", "01:08")];
        insta::assert_snapshot!(render(&story));
    }

    #[test]
    fn without_a_route_it_says_that_nobody_gets_it() {
        assert!(render(&story(Vec::new())).ends_with("no route is registered, so nobody gets it yet"));
    }
}
