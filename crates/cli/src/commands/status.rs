//! `postroom status`: is it moving? One screen for every route, relay and store.
//!
//! Collects from every configured store; what cannot be asked is shown as down, never left out.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::Duration;

use postroom_admin::view::{EVENTS_COUNTED_MAX, StoreRow};
use postroom_core::{RouteState, Timestamp};
use postroom_server::config::{Config, StoreConfig};
use postroom_server::status::{self, Part, Report, RouteLine};
use postroom_server::stores;

use crate::app::App;
use crate::exit::{Exit, Outcome};
use crate::options::help;
use crate::output::Narrower::{Drop, Shorten};
use crate::output::{Format, Table, count, dash, plain, print};
use crate::{stop, when};

/// Show the status of routes, relays and stores on one screen
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom status", "postroom status --watch", "postroom status -o json"))]
pub(crate) struct StatusArgs {
    /// Refresh every second until interrupted
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(app: &App, args: &StatusArgs) -> Outcome {
    let config = app.config_with_stores()?;
    if args.watch {
        return watch(app, &config).await;
    }
    let mut report = collect(&config, None).await;
    app.global.output.one(&report, || render(&report))?;
    let answered = report.stores.iter().any(|s| s.reachable);
    match report.unanswered.drain(..).next() {
        Some(error) if !answered => Err(error.into()),
        _ => Ok(Exit::Done),
    }
}

async fn watch(app: &App, config: &Config) -> Outcome {
    let stop = stop::on_signal()?;
    let mut each_second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(Exit::Done),
            _ = each_second.tick() => {}
        }
        let report = collect(config, None).await;
        match app.global.output {
            Format::Table | Format::Wide if io::stdout().is_terminal() => {
                print(&format!("\x1b[H\x1b[2J{}", render(&report)))?;
            }
            format => format.stream(&report, || format!("{}\n", render(&report)))?,
        }
    }
}

/// Collects the status of every store, or of the store of this name.
pub(crate) async fn collect(config: &Config, only: Option<&str>) -> Report {
    let wanted = |store: &StoreConfig| only.is_none_or(|only| only == store.name);
    let limits = config.limits;
    let open = |store: StoreConfig| async move { Ok(stores::open(&store, limits).await?.admin()) };
    status::collect(config, Part::All, wanted, open).await
}

/// Renders the routes as a table, with the name of the store only where there are several.
pub(crate) fn routes_table(routes: &[RouteLine]) -> Table {
    let several = routes.windows(2).any(|w| w[0].store != w[1].store);
    let now = Timestamp::now();
    let columns =
        ["route", "to", "state", "due", "oldest", "rate", "delivered", "retrying", "blocked", "dead", "message"];
    let mut table = Table::new(&columns, &[3, 4, 5, 6, 7, 8, 9]).narrower(&[
        Drop("to"),
        Drop("delivered"),
        Shorten("message"),
        Drop("message"),
        Drop("blocked"),
        Drop("retrying"),
        Drop("rate"),
        Shorten("route"),
    ]);
    for r in routes {
        let name = if several { format!("{}/{}", r.store, r.route) } else { r.route.clone() };
        let cells = [
            name,
            r.to.clone(),
            r.state.as_str().replace('_', " "),
            due(r),
            dash(r.oldest_due_seconds.map(seconds).as_ref()),
            dash(r.rate.map(|rate| format!("{rate:.1}/s")).as_ref()),
            dash(r.delivered.as_ref()),
            dash(r.retrying.as_ref()),
            dash(r.blocked_keys.as_ref()),
            dash(r.dead.as_ref()),
            message(r, now),
        ];
        table.row_of_route(cells, 2, r.state);
    }
    table
}

/// Formats the number of due deliveries: `12`, `~205000`; `–` if it is not known.
pub(crate) fn due(route: &RouteLine) -> String {
    let about = if route.due_estimated { "~" } else { "" };
    dash(route.due.map(|due| format!("{about}{due}")).as_ref())
}

/// Formats an age in seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    when::age(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Newest events of a store that are looked at for those that match no route.
const UNMATCHED_LOOKS: u64 = 10_000;

/// Renders since when a route does not run, when its destination is tried next, and why: `for 4m12s, next try in 8s: …`.
pub(crate) fn message(route: &RouteLine, now: Timestamp) -> String {
    if route.state == RouteState::Running {
        return route.message.clone();
    }
    let span =
        |from: Timestamp, to: Timestamp| when::age(Duration::try_from(to.duration_since(from)).unwrap_or_default());
    let since = route.since.map(|since| format!("for {}", span(since, now)));
    let next = route.next_try.map(|next| format!("next try in {}", span(now, next)));
    let times: Vec<String> = since.into_iter().chain(next).collect();
    match (times.is_empty(), route.message.is_empty()) {
        (true, _) => route.message.clone(),
        (false, true) => times.join(", "),
        (false, false) => format!("{}: {}", times.join(", "), route.message),
    }
}

fn render(report: &Report) -> String {
    let mut text = if report.routes.is_empty() && !report.stores.iter().any(|store| store.reachable) {
        // Routes that are only registered are not known.
        "no route is configured".to_owned()
    } else if report.routes.is_empty() {
        "no routes yet; add a [[route]] to the configuration".to_owned()
    } else {
        routes_table(&report.routes).render()
    };
    text.push('\n');
    text.push_str(&last_line(report));
    text
}

/// Renders the last line: `2 relays · store main: 120 events, 3 match no route · next: postroom dead ls`.
pub(crate) fn last_line(report: &Report) -> String {
    // One that serves several stores is a row in each.
    let alive: BTreeSet<&str> = report.relays.iter().filter(|r| r.alive).map(|r| r.boot.as_str()).collect();
    let alive = alive.len() as u64;
    let mut parts = vec![count(alive, "relay")];
    for store in &report.stores {
        let mut part = format!("store {}: ", store.store);
        if store.reachable {
            part.push_str(&events(store));
            if let Some(unmatched) = store.unmatched.filter(|unmatched| *unmatched > 0) {
                // Only the newest events are looked at.
                let more = if store.events > Some(UNMATCHED_LOOKS) { "at least " } else { "" };
                let _ = write!(part, ", {more}{unmatched} match no route");
            }
        } else {
            part.push_str(&plain(&store.message, usize::MAX));
        }
        if store.reachable && !store.message.is_empty() {
            let _ = write!(part, ", {}", store.message);
        }
        parts.push(part);
    }
    let any = |what: fn(&RouteLine) -> bool| report.routes.iter().any(what);
    let next = if alive == 0 && any(|r| r.due > Some(0) || r.state == RouteState::New) {
        Some("postroom relay run")
    } else if any(|r| r.dead > Some(0)) {
        Some("postroom dead ls")
    } else if any(|r| r.blocked_keys > Some(0)) {
        Some("postroom key ls --blocked")
    } else {
        None
    };
    parts.extend(next.map(|command| format!("next: {command}")));
    parts.join(" · ")
}

/// Formats the number of events of a store: `120 events`, `~205000 events`; `> 100000 events` before the server has estimated.
fn events(store: &StoreRow) -> String {
    match store.events {
        None => "– events".to_owned(),
        Some(events) if !store.events_estimated => count(events, "event"),
        Some(events) if events == EVENTS_COUNTED_MAX + 1 => format!("> {EVENTS_COUNTED_MAX} events"),
        Some(events) => format!("~{events} events"),
    }
}

#[cfg(test)]
mod tests {
    use postroom_admin::view::RelayRow;
    use postroom_core::RouteSpec;

    use super::*;

    fn route(name: &str, state: RouteState) -> RouteLine {
        status::unasked("main", &RouteSpec { to: "exec mailer.py".into(), ..RouteSpec::new(name) }, state, "")
    }

    fn store(reachable: bool) -> StoreRow {
        StoreRow {
            store: "main".into(),
            kind: "sqlite",
            reachable,
            schema_version: Some(1),
            events: Some(120),
            events_estimated: false,
            bytes: None,
            unmatched: Some(3),
            message: String::new(),
        }
    }

    #[test]
    fn one_screen_says_whether_it_moves_and_what_to_do_next() {
        let busy = RouteLine {
            due: Some(18_000),
            due_estimated: true,
            oldest_due_seconds: Some(252.0),
            ..route("billing", RouteState::BreakerOpen)
        };
        let sick =
            RouteLine { dead: Some(2), delivered: Some(9), rate: Some(1.25), ..route("orders", RouteState::Running) };
        let report = Report { routes: vec![sick, busy], stores: vec![store(true)], ..Report::default() };
        insta::assert_snapshot!(render(&report));
    }

    #[test]
    fn the_routes_fit_every_terminal() {
        let routes =
            [("order-confirmations", RouteState::BreakerOpen), ("search", RouteState::Running)].map(|(name, state)| {
                RouteLine {
                    due: Some(18_000),
                    message: "redis.unreachable: redis://broker.example:6379 cannot be reached: connection refused"
                        .into(),
                    ..route(name, state)
                }
            });
        insta::assert_snapshot!(Table::at_widths(|| routes_table(&routes)));
    }

    #[test]
    fn a_relay_that_serves_two_stores_is_one_relay() {
        let row = |store: &str, boot: &str| RelayRow {
            store: store.into(),
            relay: "postroom".into(),
            boot: boot.into(),
            version: "1".into(),
            alive: true,
            started_at: Timestamp::UNIX_EPOCH,
            seen_at: Timestamp::UNIX_EPOCH,
            lanes: 0,
            routes: Vec::new(),
        };
        let relays = vec![row("orders", "a"), row("billing", "a"), row("orders", "b")];
        assert_eq!(last_line(&Report { relays, ..Report::default() }), "2 relays");
    }

    #[test]
    fn the_json_has_exactly_the_documented_fields() {
        let report =
            Report { routes: vec![route("a", RouteState::New)], stores: vec![store(false)], ..Report::default() };
        let json = serde_json::to_value(&report).unwrap();
        let names = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(names(&json), "relays routes stores");
        assert_eq!(
            names(&json["routes"][0]),
            "blocked_keys consumers dead delivered due due_estimated message next_try oldest_due_seconds rate rate_1m retrying \
             route since state store to"
        );
        assert_eq!(json["stores"][0]["reachable"], false);
    }

    #[test]
    fn what_is_not_known_is_no_zero_and_a_cap_is_no_count() {
        let down = route("mailer", RouteState::Down);
        let table = routes_table(std::slice::from_ref(&down)).render();
        assert!(table.lines().nth(1).unwrap().matches('–').count() == 7, "{table}");
        let of = |events, events_estimated| StoreRow { events, events_estimated, ..store(true) };
        assert_eq!(events(&of(Some(1), false)), "1 event");
        assert_eq!(events(&of(Some(100_001), true)), "> 100000 events");
        assert_eq!(events(&of(Some(205_000), true)), "~205000 events");
        assert_eq!(events(&of(None, false)), "– events");
    }

    #[test]
    fn a_route_that_does_not_run_says_since_when_why_and_what_next() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let at = |seconds: i64| Some(now + jiff::SignedDuration::from_secs(seconds));
        let open = RouteLine {
            since: at(-252),
            next_try: at(8),
            message: "webhook.refused: 503".into(),
            ..route("partner", RouteState::BreakerOpen)
        };
        assert_eq!(message(&open, now), "for 4m12s, next try in 8.0s: webhook.refused: 503");
        let paused = RouteLine {
            since: at(-7260),
            message: "paused by ann: vendor asked".into(),
            ..route("m", RouteState::Paused)
        };
        assert_eq!(message(&paused, now), "for 2h01m: paused by ann: vendor asked");
        assert_eq!(message(&RouteLine { since: at(-9), ..route("m", RouteState::Running) }, now), "");
    }
}
