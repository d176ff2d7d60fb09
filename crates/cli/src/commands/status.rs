//! `postroom status`: is it moving? One screen for every route, relay and store.
//!
//! Collects from every configured store; what cannot be asked is shown as down, never left out.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::Duration;

use postroom_core::RouteState;
use postroom_core::view::RouteStatus;
use postroom_server::config::{Config, StoreConfig};
use postroom_server::status::{self, Part, Report};
use postroom_server::stores;

use crate::app::App;
use crate::args::help;
use crate::exit::{Exit, Outcome};
use crate::output::{Format, Table, count, print};
use crate::{stop, when};

/// Say whether it is moving: routes, relays and stores on one screen
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom status", "postroom status --watch", "postroom status -o json"))]
pub(crate) struct StatusArgs {
    /// Look again every second, until interrupted
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(app: &App, args: &StatusArgs) -> Outcome {
    let config = app.config()?;
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
            Format::Table if io::stdout().is_terminal() => print(&format!("\x1b[H\x1b[2J{}", render(&report)))?,
            format => format.stream(&report, || format!("{}\n", render(&report)))?,
        }
    }
}

/// Asks every store (or the one of this name).
pub(crate) async fn collect(config: &Config, only: Option<&str>) -> Report {
    let wanted = |store: &StoreConfig| only.is_none_or(|only| only == store.name);
    let limits = config.limits;
    let open = |store: StoreConfig| async move { Ok(stores::open(&store, limits).await?.desk()) };
    status::collect(config, Part::All, wanted, open).await
}

/// The routes as a table; the store's name only where there are several.
pub(crate) fn routes_table(routes: &[RouteStatus]) -> Table {
    let several = routes.windows(2).any(|w| w[0].store != w[1].store);
    let columns = ["route", "to", "state", "due", "oldest", "rate", "delivered", "retrying", "blocked", "dead", "note"];
    let mut table = Table::new(&columns, &[3, 4, 5, 6, 7, 8, 9]);
    for r in routes {
        let name = if several { format!("{}/{}", r.store, r.route) } else { r.route.clone() };
        let about = if r.due_estimated { "~" } else { "" };
        let cells = [
            name,
            r.to.clone(),
            r.state.as_str().replace('_', " "),
            format!("{about}{}", r.due),
            when::age(Duration::try_from_secs_f64(r.oldest_due_seconds).unwrap_or_default()),
            format!("{:.1}/s", r.rate),
            r.delivered.to_string(),
            r.retrying.to_string(),
            r.blocked_keys.to_string(),
            r.dead.to_string(),
            r.note.clone(),
        ];
        table.row_of_route(cells, 2, r.state);
    }
    table
}

fn render(report: &Report) -> String {
    let mut text = if report.routes.is_empty() {
        "no routes yet; add a [[route]] to the configuration".to_owned()
    } else {
        routes_table(&report.routes).render()
    };
    text.push('\n');
    text.push_str(&last_line(report));
    text
}

/// `2 relays · store main: 120 events, 3 match no route · next: postroom dead ls`.
pub(crate) fn last_line(report: &Report) -> String {
    // One that serves several stores is a row in each.
    let alive: BTreeSet<&str> = report.relays.iter().filter(|r| r.alive).map(|r| r.boot.as_str()).collect();
    let alive = alive.len() as u64;
    let mut parts = vec![count(alive, "relay")];
    for store in &report.stores {
        let mut part = format!("store {}: ", store.store);
        if store.reachable {
            part.push_str(&count(store.events, "event"));
            if store.unmatched > 0 {
                let _ = write!(part, ", {} match no route", store.unmatched);
            }
        } else {
            part.push_str("not reachable");
        }
        if store.reachable && !store.note.is_empty() {
            let _ = write!(part, ", {}", store.note);
        }
        parts.push(part);
    }
    let any = |what: fn(&RouteStatus) -> bool| report.routes.iter().any(what);
    let next = if alive == 0 && any(|r| r.due > 0 || r.state == RouteState::New) {
        Some("postroom relay run")
    } else if any(|r| r.dead > 0) {
        Some("postroom dead ls")
    } else if any(|r| r.blocked_keys > 0) {
        Some("postroom key ls --blocked")
    } else {
        None
    };
    parts.extend(next.map(|command| format!("next: {command}")));
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use postroom_core::view::{RelayRow, StoreRow};
    use postroom_core::{RouteDefinition, Timestamp};

    use super::*;

    fn route(name: &str, state: RouteState) -> RouteStatus {
        status::unasked(
            "main",
            &RouteDefinition { to: "exec mailer.py".into(), ..RouteDefinition::new(name) },
            state,
            "",
        )
    }

    fn store(reachable: bool) -> StoreRow {
        StoreRow {
            store: "main".into(),
            kind: "sqlite",
            reachable,
            schema_version: 1,
            events: 120,
            bytes: None,
            unmatched: 3,
            note: String::new(),
        }
    }

    #[test]
    fn one_screen_says_whether_it_moves_and_what_to_do_next() {
        let busy = RouteStatus {
            due: 18_000,
            due_estimated: true,
            oldest_due_seconds: 252.0,
            ..route("billing", RouteState::BreakerOpen)
        };
        let sick = RouteStatus { dead: 2, delivered: 9, rate: 1.25, ..route("orders", RouteState::Running) };
        let report = Report { routes: vec![sick, busy], stores: vec![store(true)], ..Report::default() };
        insta::assert_snapshot!(render(&report));
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
            "blocked_keys dead delivered due due_estimated note oldest_due_seconds rate retrying route state store to"
        );
        assert_eq!(json["stores"][0]["reachable"], false);
    }
}
