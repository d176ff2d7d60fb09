//! `postroom event show`: shows the timeline of an event.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use postroom_admin::Admin;
use postroom_admin::view::{ArrivalRow, AttemptRow, RouteStatus, RouteTimeline, Timeline};
use postroom_core::{RouteState, Timestamp};
use postroom_server::redact::Redaction;

use crate::actor::actor;
use crate::app::App;
use crate::commands::status;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::{plain, shell};
use crate::{ids, when};

/// Longest value on a line; JSON has the whole value.
const CHARS_MAX: usize = 200;

/// Show where an event is and why: every attempt on every route, and the consumers that accepted it
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom event show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
    "postroom event show order-7-placed --payload -o json",
))]
pub(crate) struct ShowArgs {
    /// Id of the event, or a prefix of at least 8 characters that no other id has
    #[arg(value_name = "ID")]
    id: String,
    /// Show the payload, redacted by `http.redact`, too
    #[arg(long)]
    payload: bool,
    /// Show the payload without redaction
    #[arg(long, requires = "payload")]
    unredacted: bool,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &ShowArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let nothing = Redaction::default();
    let redaction = if args.unredacted { &nothing } else { &config.http.redact };
    let timeline = find(&*admin, &args.id, args.payload.then_some(redaction)).await?;
    let causes = causes(&*admin, &timeline).await;
    app.global.output.one(&timeline, || render(&timeline, &causes))?;
    Ok(Exit::Done)
}

/// Causes of what a timeline shows.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    /// Who started the replays of the event, and why, by their ids.
    replays: BTreeMap<String, String>,
    /// Why routes that a relay serves do not deliver what is due, by their names.
    stops: BTreeMap<String, String>,
}

/// Looks up the replays that an event was part of, and why its routes are stopped. A replay that retention has removed is shown
/// by its id alone.
pub(crate) async fn causes(admin: &dyn Admin, timeline: &Timeline) -> Causes {
    let mut causes = Causes::default();
    if timeline.routes.iter().any(|route| route.state == "due") {
        let routes = admin.routes().await.unwrap_or_default().into_iter().map(|detail| detail.status);
        let is_stopped = |status: &RouteStatus| {
            !matches!(status.state, RouteState::New | RouteState::Orphan | RouteState::Running | RouteState::Down)
        };
        causes.stops = routes.filter(is_stopped).map(|status| (status.route.clone(), stop(status))).collect();
    }
    for route in &timeline.routes {
        let attempts = route.attempts.iter().filter_map(|one| one.replay.as_ref());
        let arrivals = route.arrivals.iter().filter_map(|one| one.replay.as_ref());
        for id in attempts.chain(arrivals).chain(&route.replay) {
            if !causes.replays.contains_key(id)
                && let Ok(Some(replay)) = admin.replay(id).await
            {
                let reason = replay.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                causes.replays.insert(id.clone(), format!(" by {}{reason}", replay.actor));
            }
        }
    }
    causes
}

/// Describes why a route does not deliver: `paused for 4m12s: by ada@web-1`.
fn stop(status: RouteStatus) -> String {
    let state = status.state.as_str().replace('_', " ");
    format!("{state} {}", status::message(&status.into(), Timestamp::now())).trim_end().to_owned()
}

/// Returns the timeline of the event with this id or prefix of an id, or an error that offers the nearest ids.
/// With a redaction it has its payload, and the audit log says who saw it.
pub(crate) async fn find(admin: &dyn Admin, id: &str, payload: Option<&Redaction>) -> Result<Timeline, Failed> {
    let mut timeline = admin.event(id, false).await?;
    if timeline.is_none() {
        let known = ids::of_events(admin, id).await?;
        let whole = ids::only("event", id, &known, "list what there is: `postroom event ls`; it may have been pruned")?;
        timeline = admin.event(whole, false).await?;
    }
    if let (Some(found), Some(redaction)) = (&timeline, payload) {
        let (whole, event_type) = (found.event.id.clone(), found.event.event_type.clone());
        admin.note_payloads("payload.show", &whole, &actor(&Reason::default())).await?;
        timeline = admin.event(&whole, true).await?;
        if let Some(payload) = timeline.as_mut().and_then(|timeline| timeline.payload.as_mut()) {
            *payload = redaction.apply(&event_type, payload.take());
        }
    }
    timeline.ok_or_else(|| Failed::new(Exit::Failed, format!("event {id:?} has just been pruned"), ""))
}

/// Renders a timeline as text.
pub(crate) fn render(timeline: &Timeline, causes: &Causes) -> String {
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
        for line in lines(route, &event.id, causes) {
            let _ = write!(text, "\n  {name:width$} {line}");
            name = "";
        }
    }
    if timeline.routes.is_empty() {
        text.push_str("\n  no route is registered, so the event is not delivered yet");
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
        let _ = write!(text, "\n  the same id was also appended at position {}", at.join(", "));
    }
    if let Some(payload) = &timeline.payload {
        let shown = payload.as_str().map_or_else(|| payload.to_string(), str::to_owned);
        let _ = write!(text, "\n  payload {}", plain(&shown, usize::MAX));
    }
    text
}

/// Something that happened to an event on a route.
enum Step<'t> {
    Attempt(&'t AttemptRow),
    Arrival(&'t ArrivalRow),
}

/// Renders every round: failed attempts, deliveries and discards in order of time, each replay with its cause; then the
/// current state.
fn lines(route: &RouteTimeline, id: &str, causes: &Causes) -> Vec<String> {
    let mut lines = Vec::new();
    let attempts = route.attempts.iter().map(|one| (one.at, &one.replay, Step::Attempt(one)));
    let arrivals = route.arrivals.iter().map(|one| (one.at, &one.replay, Step::Arrival(one)));
    let mut steps: Vec<_> = attempts.chain(arrivals).collect();
    steps.sort_by_key(|(at, ..)| *at);
    let mut round = &None;
    let again = |replay: &Option<String>| {
        let by = replay.as_ref().and_then(|replay| causes.replays.get(replay)).map(String::as_str).unwrap_or_default();
        replay.as_ref().map(|replay| format!("↻ replay {}{}", plain(replay, CHARS_MAX), plain(by, CHARS_MAX)))
    };
    for (_, replay, step) in &steps {
        if *replay != round {
            lines.extend(again(replay));
            round = replay;
        }
        match step {
            Step::Attempt(tried) => attempt(&mut lines, tried),
            Step::Arrival(arrived) if arrived.discarded => {
                lines.push(format!("– discarded by an operator  {}", when::clock(arrived.at)));
            }
            Step::Arrival(arrived) => {
                let receipt =
                    arrived.receipt.as_ref().map(|r| format!("  {}", plain(r, CHARS_MAX))).unwrap_or_default();
                lines.push(format!("✓ delivered  {}{receipt}", when::clock(arrived.at)));
            }
        }
    }
    if route.replay != *round {
        lines.extend(again(&route.replay));
    }
    if matches!(route.state, "delivered" | "discarded") && !route.arrivals.is_empty() {
        return lines;
    }
    let due = route.due_at.map(when::seconds).unwrap_or_default();
    lines.push(match route.state {
        "delivered" => "✓ delivered".to_owned(),
        "due" => match causes.stops.get(&route.route) {
            Some(stop) => format!("… due now, but the route is {}", plain(stop, CHARS_MAX)),
            None => "… due now, waiting for a relay".to_owned(),
        },
        "retrying" => format!("… retrying   next {due}"),
        "blocked" => {
            let head = route.blocked_by.as_deref().unwrap_or("an earlier event");
            format!("… blocked    waits behind {} of its key", plain(head, CHARS_MAX))
        }
        "delayed" => format!("… delayed    not before {due}"),
        "dead" => format!("✗ dead letter: not tried again by itself   postroom dead replay {}", shell(id)),
        "filtered" => "– not wanted by this route".to_owned(),
        "discarded" => "– discarded by an operator".to_owned(),
        "before_start" => "– appended before this route started".to_owned(),
        other => other.to_owned(),
    });
    lines
}

fn attempt(lines: &mut Vec<String>, tried: &AttemptRow) {
    let took = when::age(Duration::from_millis(tried.took_ms));
    let (code, error) = (plain(&tried.code, CHARS_MAX), plain(&tried.error, CHARS_MAX));
    lines.push(format!("✗ attempt {}  {}  {code}: {error}  ({took})", tried.attempt, when::clock(tried.at)));
    for handler in &tried.handlers {
        let (name, error) = (plain(&handler.handler, CHARS_MAX), plain(&handler.error, CHARS_MAX));
        lines.push(format!("  └ handler {name}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use postroom_admin::view::{EventRow, InboxRow};

    use super::*;

    fn at(text: &str) -> Timestamp {
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
            replay: None,
            attempts: Vec::new(),
            arrivals: Vec::new(),
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
            replay: None,
            at: at(time),
            outcome: "transient".into(),
            code: "exec.error".into(),
            error: "mail server\nsays no".into(),
            took_ms: 8100,
            handlers: Vec::new(),
        };
        let arrived = |time, replay: Option<&str>| ArrivalRow {
            at: at(time),
            discarded: false,
            receipt: Some("line 7".into()),
            replay: replay.map(str::to_owned),
        };
        let mut story = story(vec![
            RouteTimeline { arrivals: vec![arrived("01:07.164", None)], ..route("orders", "delivered") },
            RouteTimeline {
                due_at: Some(at("07:51")),
                attempts: vec![failed(1, "02:40.5"), failed(2, "02:51.9")],
                ..route("partners", "retrying")
            },
            RouteTimeline { blocked_by: Some("e-0".into()), ..route("billing", "blocked") },
            route("mailer", "dead"),
            RouteTimeline {
                attempts: vec![failed(1, "01:08.2"), AttemptRow { replay: Some("r-1".into()), ..failed(1, "09:00.1") }],
                arrivals: vec![arrived("01:09.3", None), arrived("09:02.8", Some("r-1"))],
                replay: Some("r-2".into()),
                ..route("twice", "due")
            },
            route("search", "filtered"),
        ]);
        let accepted = |consumer: &str, time| InboxRow {
            store: "main".into(),
            consumer: consumer.into(),
            id: "e-1".into(),
            accepted_at: at(time),
        };
        story.inbox = vec![accepted("search-index", "01:07.201"), accepted("mailer", "01:08")];
        let replays = [("r-1".to_owned(), " by ann: partner lost data".to_owned())].into();
        let causes = Causes { replays, ..Causes::default() };
        insta::assert_snapshot!(render(&story, &causes));
    }

    #[test]
    fn without_a_route_it_says_that_nobody_gets_it() {
        assert!(
            render(&story(Vec::new()), &Causes::default())
                .ends_with("no route is registered, so the event is not delivered yet")
        );
    }
}
