//! `postroom report`: what a store did over the last hours, as Markdown to paste.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use postroom_admin::view::{AppendedRow, AuditRow, DeliveryGroup, RelayRow, ReplayRow, RouteStatus, ThroughputRow};
use postroom_admin::{Admin, Selection};
use postroom_core::units::parse_duration;
use serde::Serialize;

use crate::app::{self, App};
use crate::commands::delivery::counted;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{StoreArg, help};
use crate::output::{count, dash, grouped, plain, plural};

/// Lengths of the intervals of a report; the first one that needs few enough lines is taken.
const INTERVALS: [u64; 8] = [60, 300, 600, 1_800, 3_600, 10_800, 21_600, 86_400];
/// Maximum number of intervals of a report.
const LINES_MAX: u64 = 24;
/// Maximum number of actions and replays that are looked at.
const ROWS_MAX: usize = 500;
/// Maximum number of groups of dead letters.
const GROUPS_MAX: usize = 20;

/// Print what happened over the last hours as Markdown: events in and out, dead letters, operator actions, replays and relays
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom report", "postroom report --since 1h", "postroom report --since 24h -o json"))]
pub(crate) struct ReportArgs {
    /// Length of the period that ends now, at most 7 days; what routes did is known for a day
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = period)]
    since: Duration,
    #[command(flatten)]
    store: StoreArg,
}

fn period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    if period < Duration::from_mins(1) || period > Duration::from_hours(7 * 24) {
        return Err("use one minute to 7 days, for instance 12h".to_owned());
    }
    Ok(period)
}

/// What happened in one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Interval {
    at: Timestamp,
    appended: u64,
    delivered: u64,
    retried: u64,
    dead: u64,
    /// Operator actions and starts of relays.
    notes: Vec<String>,
}

/// The report.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    from: Timestamp,
    to: Timestamp,
    interval_seconds: u64,
    routes: Vec<RouteStatus>,
    intervals: Vec<Interval>,
    /// Dead letters that died in the period.
    dead: Vec<DeliveryGroup>,
    replays: Vec<ReplayRow>,
    actions: Vec<AuditRow>,
    relays: Vec<RelayRow>,
}

pub(crate) async fn run(app: &App, args: &ReportArgs) -> Outcome {
    let config = app.config()?;
    let store = app::meant(&config, &args.store)?.name.clone();
    let admin = app.open(&config, &args.store).await?.admin();
    let report = gather(&*admin, store, args.since, Timestamp::now()).await?;
    app.global.output.one(&report, || render(&report))?;
    Ok(Exit::Done)
}

async fn gather(admin: &dyn Admin, store: String, since: Duration, to: Timestamp) -> Result<Report, Failed> {
    let interval = interval(since);
    let seconds = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX);
    let first = to.checked_sub(since).unwrap_or(Timestamp::UNIX_EPOCH).as_second().div_euclid(seconds);
    let from = Timestamp::from_second(first.saturating_mul(seconds)).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut dead = admin.dead_groups(&Selection::default(), GROUPS_MAX).await?;
    dead.retain(|group| group.last_at >= from);
    let mut actions = admin.audit(None, ROWS_MAX).await?;
    actions.retain(|action| action.at >= from);
    actions.reverse();
    let mut replays = admin.replays(None, ROWS_MAX).await?;
    replays.retain(|replay| replay.created_at >= from);
    replays.reverse();
    let relays = admin.relays().await?;
    let routes: Vec<RouteStatus> = admin.routes().await?.into_iter().map(|detail| detail.status).collect();
    let (appended, moved) = (admin.appended(from, interval).await?, admin.throughput(None, from).await?);
    let intervals = intervals((from, to), seconds, &appended, &moved, &actions, &relays);
    let interval_seconds = interval.as_secs();
    Ok(Report { store, from, to, interval_seconds, routes, intervals, dead, replays, actions, relays })
}

fn interval(since: Duration) -> Duration {
    let fits = |seconds: &&u64| since.as_secs().div_ceil(**seconds) <= LINES_MAX;
    Duration::from_secs(INTERVALS.iter().find(fits).copied().unwrap_or(86_400))
}

/// Adds up what happened per interval; also of those in which nothing did.
fn intervals(
    (from, to): (Timestamp, Timestamp),
    seconds: i64,
    appended: &[AppendedRow],
    moved: &[ThroughputRow],
    actions: &[AuditRow],
    relays: &[RelayRow],
) -> Vec<Interval> {
    let number = |at: Timestamp| at.as_second().div_euclid(seconds);
    let mut intervals: BTreeMap<i64, Interval> = (number(from)..=number(to))
        .map(|n| {
            let at = Timestamp::from_second(n.saturating_mul(seconds)).unwrap_or(Timestamp::MAX);
            (n, Interval { at, ..Interval::default() })
        })
        .collect();
    let mut add = |at: Timestamp, what: &dyn Fn(&mut Interval)| {
        if let Some(interval) = intervals.get_mut(&number(at)) {
            what(interval);
        }
    };
    for row in appended {
        add(row.at, &|interval| interval.appended += row.appended);
    }
    for row in moved {
        add(row.minute, &|interval| {
            interval.delivered += row.delivered;
            interval.retried += row.retried;
            interval.dead += row.dead;
        });
    }
    for relay in relays {
        let note = format!("{} relay {} {} started", clock(relay.started_at), relay.relay, relay.version);
        add(relay.started_at, &|interval| interval.notes.push(note.clone()));
    }
    for action in actions {
        let reason = action.reason.as_ref().map(|reason| format!(" ({})", plain(reason, 60))).unwrap_or_default();
        let (at, who, what) = (clock(action.at), &action.actor, &action.action);
        let note = format!("{at} {who}: {what} {}{reason}", plain(&action.subject, 60));
        add(action.at, &|interval| interval.notes.push(note.clone()));
    }
    intervals.into_values().collect()
}

fn clock(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string()
}

fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M").to_string()
}

/// One sentence: whether something is left to do.
fn verdict(report: &Report) -> String {
    let sum = |of: fn(&Interval) -> u64, thing: &str| {
        let sum = report.intervals.iter().map(of).sum();
        format!("{} {}", grouped(sum), plural(sum, thing))
    };
    let (due, dead): (u64, u64) =
        report.routes.iter().fold((0, 0), |(due, dead), route| (due + route.due.unwrap_or(0), dead + route.dead));
    let is_known = report.routes.iter().all(|route| route.due.is_some());
    let left = match (due, dead) {
        (0, 0) if !is_known => "deliveries may be left".to_owned(),
        (0, 0) => "nothing is left to deliver".to_owned(),
        (due, 0) => format!("{} due now", count(due, "delivery")),
        (0, dead) => format!("{} wait for an operator", count(dead, "dead letter")),
        (due, dead) => {
            format!("{} due now, {} wait for an operator", count(due, "delivery"), count(dead, "dead letter"))
        }
    };
    format!(
        "**{} appended, {}, {}, {}; {left}.**",
        sum(|i| i.appended, "event"),
        sum(|i| i.delivered, "delivery"),
        sum(|i| i.retried, "failed attempt"),
        sum(|i| i.dead, "new dead letter")
    )
}

fn render(report: &Report) -> String {
    let mut text = format!(
        "# Postroom report: {}, {} to {} UTC\n\n{}\n",
        report.store,
        day(report.from),
        day(report.to),
        verdict(report)
    );
    section(&mut text, "Routes now", &["route", "destination", "state", "due", "retrying", "blocked keys", "dead"]);
    for route in &report.routes {
        let state = route.state.as_str().replace('_', " ");
        let [retrying, blocked, dead] = [route.retrying, route.blocked_keys, route.dead].map(grouped);
        let due = dash(route.due.map(grouped).as_ref());
        line(&mut text, &[&route.route, &route.to, &state, &due, &retrying, &blocked, &dead]);
    }
    section(&mut text, "Over time (UTC)", &["from", "appended", "delivered", "retried", "dead", "what happened"]);
    for one in &report.intervals {
        let [appended, delivered, retried, dead] = [one.appended, one.delivered, one.retried, one.dead].map(grouped);
        line(&mut text, &[&day(one.at), &appended, &delivered, &retried, &dead, &one.notes.join("; ")]);
    }
    if !report.dead.is_empty() {
        let columns = ["count", "route", "code", "types", "tenants", "first", "last", "error", "sample"];
        section(&mut text, "Dead letters", &columns);
        for group in &report.dead {
            let error = group.error.as_deref().map(|error| plain(error, 120)).unwrap_or_default();
            line(
                &mut text,
                &[
                    &grouped(group.count),
                    &group.route,
                    group.code.as_deref().unwrap_or("–"),
                    &counted(&group.types, group.count),
                    &counted(&group.tenants, group.count),
                    &day(group.first_at),
                    &day(group.last_at),
                    &error,
                    &group.sample,
                ],
            );
        }
    }
    if !report.replays.is_empty() {
        section(&mut text, "Replays", &["id", "started", "by", "state", "made due", "delivered", "dead again"]);
        for replay in &report.replays {
            let known = |n: Option<u64>| n.map_or_else(|| "–".to_owned(), grouped);
            line(
                &mut text,
                &[
                    &replay.id,
                    &day(replay.created_at),
                    &replay.actor,
                    replay.state.as_str(),
                    &grouped(replay.done),
                    &known(replay.delivered),
                    &known(replay.dead),
                ],
            );
        }
    }
    section(&mut text, "Relays", &["relay", "version", "started", "last seen", "alive", "lanes"]);
    for relay in &report.relays {
        let (started, seen) = (day(relay.started_at), day(relay.seen_at));
        let alive = if relay.alive { "yes" } else { "no" };
        line(&mut text, &[&relay.relay, &relay.version, &started, &seen, alive, &relay.lanes.to_string()]);
    }
    text.trim_end().to_owned()
}

/// Begins a section with a table.
fn section(text: &mut String, title: &str, columns: &[&str]) {
    let _ = writeln!(text, "\n## {title}\n");
    line(text, columns);
    let _ = writeln!(text, "|{}", " --- |".repeat(columns.len()));
}

/// Adds a line of a table. What would end a cell is escaped: errors and reasons are anybody's text.
fn line(text: &mut String, cells: &[&str]) {
    text.push('|');
    for cell in cells {
        let _ = write!(text, " {} |", cell.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " "));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_at_most_two_dozen_lines_over_time() {
        for (since, seconds) in [(Duration::from_hours(1), 300), (Duration::from_hours(12), 1_800)] {
            assert_eq!(interval(since), Duration::from_secs(seconds));
        }
        assert_eq!(interval(Duration::from_hours(7 * 24)), Duration::from_hours(24));
    }

    #[test]
    fn a_cell_cannot_break_its_table() {
        let mut text = String::new();
        line(&mut text, &["a|b", "c\nd"]);
        assert_eq!(text, "| a\\|b | c d |\n");
    }
}
