//! `postroom route`: lists, shows, pauses, resumes, probes, tests, renames and forgets routes.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use postroom_admin::Undelivered;
use postroom_admin::view::{LaneRow, RouteDetail, RouteStatus, ThroughputRow};
use postroom_core::{RouteState, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::actor::actor;
use crate::app::{self, App};
use crate::commands::{consumers, probe, spark, status};
use crate::confirm::{confirm, confirm_lost};
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::note;
use crate::screen::Screen;
use crate::when;

/// List, pause, resume, probe, test, rename and forget routes
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RouteCommand {
    /// List routes, both registered and only configured
    #[command(after_help = help!(store: "postroom route ls", "postroom route ls -o json"))]
    Ls {
        #[command(flatten)]
        store: StoreArg,
    },
    /// Show a route: its filter, state, position and throughput
    #[command(after_help = help!(store: "postroom route show orders"))]
    Show(RouteArgs),
    /// Pause a route; its events wait and none is lost
    #[command(after_help = help!(store: "postroom route pause mailer --reason 'mail server moves'"))]
    Pause(ActArgs),
    /// Resume a paused route
    #[command(after_help = help!(store: "postroom route resume mailer"))]
    Resume(ActArgs),
    /// Try the destination of a route now, instead of waiting until its open breaker does
    #[command(after_help = help!(store: "postroom route probe partner"))]
    Probe(ActArgs),
    /// Send a marked test event through the transport of a route, bypassing the store and all other routes
    #[command(after_help = help!(probe: "postroom route test orders", "postroom route test orders --type order.placed"))]
    Test(probe::TestArgs),
    /// Rename a route; its position, deliveries and dead letters stay
    #[command(after_help = help!(ask: "postroom route rename mailer mails --dry-run", "postroom route rename mailer mails --yes"))]
    Rename(RenameArgs),
    /// Remove a route with its position, its open deliveries and its dead letters
    #[command(after_help = help!(ask: "postroom route forget mailer --dry-run", "postroom route forget mailer --yes"))]
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RouteArgs {
    /// Name of the route
    #[arg(value_name = "ROUTE")]
    route: String,
    #[command(flatten)]
    store: StoreArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RenameArgs {
    /// Registered name of the route
    #[arg(value_name = "OLD")]
    route: String,
    /// New name of the route, as in the configuration
    #[arg(value_name = "NEW")]
    to: String,
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    reason: Reason,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ActArgs {
    #[command(flatten)]
    which: RouteArgs,
    #[command(flatten)]
    reason: Reason,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    act: ActArgs,
    /// Number of undelivered events that are lost for the route; required above 1,000 and for an estimate, and must be the
    /// current number
    #[arg(long, value_name = "N")]
    confirm: Option<u64>,
}

pub(crate) async fn run(app: &App, command: RouteCommand) -> Outcome {
    match command {
        RouteCommand::Ls { store } => ls(app, &store).await,
        RouteCommand::Show(args) => show(app, &args).await,
        RouteCommand::Pause(args) => switch(app, &args, Switch::Pause).await,
        RouteCommand::Resume(args) => switch(app, &args, Switch::Resume).await,
        RouteCommand::Probe(args) => try_now(app, &args).await,
        RouteCommand::Test(args) => probe::run(app, &args).await,
        RouteCommand::Rename(args) => rename(app, &args).await,
        RouteCommand::Forget(args) => forget(app, &args).await,
    }
}

async fn ls(app: &App, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let only = app::meant(&config, store)?;
    let mut report = status::collect(&config, Some(&only.name)).await;
    if let Some(error) = report.unanswered.pop() {
        return Err(error.into());
    }
    app.global.output.list(&report.routes, || status::routes_table(&report.routes))?;
    Ok(Exit::Done)
}

/// Route with its throughput of the last hour.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    detail: RouteDetail,
    throughput: Vec<ThroughputRow>,
}

async fn show(app: &App, args: &RouteArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let detail = opened.route(&args.route).await?;
    let now = Timestamp::now();
    let hour = now.checked_sub(Duration::from_mins(59)).unwrap_or(now);
    let throughput = opened.admin().throughput(Some(&args.route), hour).await?;
    let shown = Shown { detail, throughput };
    app.global.output.one(&shown, || {
        wrapped(&(render(&shown.detail) + &spark::hour(&shown.throughput, now)), Screen::get().width)
    })?;
    Ok(Exit::Done)
}

/// Breaks lines between words where they are wider than the terminal; what goes on stands under the values.
fn wrapped(text: &str, width: Option<usize>) -> String {
    const INDENT: usize = 18;
    let Some(width) = width.filter(|width| *width > 2 * INDENT) else { return text.to_owned() };
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line.to_owned();
        while let Some((past, _)) = rest.char_indices().nth(width) {
            // Blanks that begin a line are its indent, and a word that is too long stays whole.
            let begin = rest.len() - rest.trim_start().len();
            let before = if rest[past..].starts_with(' ') { Some(past) } else { rest[..past].rfind(' ') };
            let Some(at) = before.filter(|at| *at > begin) else { break };
            lines.push(rest[..at].trim_end().to_owned());
            rest = format!("{:INDENT$}{}", "", rest[at..].trim_start());
        }
        lines.push(rest);
    }
    lines.join("\n")
}

fn render(detail: &RouteDetail) -> String {
    let status = &detail.status;
    let listed = |list: &[String]| if list.is_empty() { "*".to_owned() } else { list.join(", ") };
    let state = status.state.as_str().replace('_', " ");
    let mut text = format!("{}  to {}  {state}", status.route, status.to);
    let why = status::message(&status.clone().into(), Timestamp::now());
    if !why.is_empty() {
        let _ = write!(text, "  ({why})");
    }
    let _ = write!(text, "\n  match           {}", listed(&detail.types));
    for (name, list) in [("aggregate_type", &detail.aggregate_type), ("tenant", &detail.tenant)] {
        if !list.is_empty() {
            let _ = write!(text, "\n  {name:15} {}", listed(list));
        }
    }
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let _ = write!(
        text,
        "\n  start           {}\n  on failure      {}\n  on dead         {}\n  registered      {}",
        detail.start,
        word(json!(detail.on_failure)),
        word(json!(detail.on_dead)),
        when::seconds(detail.registered_at),
    );
    if let (Some(by), Some(at)) = (&detail.paused_by, detail.paused_at) {
        let reason = detail.pause_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let _ = write!(text, "\n  paused          {} by {by}{reason}", when::seconds(at));
    }
    let _ = write!(
        text,
        "\n  delivered {}  due {}  retrying {}  blocked keys {}  dead {}",
        status.delivered,
        status::due(&status.clone().into()),
        status.retrying,
        status.blocked_keys,
        status.dead
    );
    let _ = write!(text, "\n  rate {:.1}/s now, {:.1}/s over the last minute", status.rate, status.rate_1m);
    if !matches!(status.state, RouteState::Halted | RouteState::Paused) {
        text.push_str(&backlog(status.due.unwrap_or(0), status.rate));
    }
    for lanes in detail.lanes.chunk_by(|one, next| one.holder == next.holder) {
        text.push_str(&held(lanes));
    }
    if let Some(lags) = &status.consumers {
        text.push_str(&consumers::render(lags));
    }
    text
}

/// Estimates when a backlog is gone, if it becomes smaller at all.
fn backlog(due: u64, rate: f64) -> String {
    if due == 0 || rate <= 0.0 {
        return String::new();
    }
    let gone = Duration::try_from_secs_f64(due as f64 / rate).unwrap_or(Duration::MAX);
    format!("; at this rate the backlog is gone in about {}", when::age(gone))
}

/// Describes neighbouring lanes of one holder. A term is one ownership: also the same relay's after a restart, of it or of the store.
fn held(lanes: &[LaneRow]) -> String {
    let (Some(first), Some(last)) = (lanes.first(), lanes.last()) else { return String::new() };
    let numbers =
        if lanes.len() == 1 { format!("lane {}", first.lane) } else { format!("lanes {}-{}", first.lane, last.lane) };
    let holder =
        first.holder.as_ref().map_or_else(|| "held by no relay".to_owned(), |relay| format!("held by {relay}"));
    let unsettled: u64 = lanes.iter().map(|lane| lane.unsettled).sum();
    let times = lanes.iter().map(|lane| lane.term).max().unwrap_or(0);
    let times = if times < 2 { String::new() } else { format!(", taken {times}x so far") };
    let position = lanes.iter().map(|lane| lane.hwm).max().unwrap_or(0);
    format!("\n  {numbers}  {holder}{times}  position {position}  unsettled {unsettled}")
}

#[derive(Debug, Clone, Copy)]
enum Switch {
    Pause,
    Resume,
}

async fn switch(app: &App, args: &ActArgs, switch: Switch) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.which.store).await?;
    let route = opened.route(&args.which.route).await?.status.route;
    let (verb, done, actor) = match switch {
        Switch::Pause => ("pause", "paused", actor(&args.reason)),
        Switch::Resume => ("resume", "running", actor(&args.reason)),
    };
    if app.global.dry_run {
        note(&format!("would {verb} route {route}; nothing was changed"))?;
        return Ok(Exit::Done);
    }
    let changed = match switch {
        Switch::Pause => opened.admin().pause(&route, &actor).await?,
        Switch::Resume => opened.admin().resume(&route, &actor).await?,
    };
    let answer = json!({ "route": route, "state": done, "changed": changed });
    let stands = opened.route(&route).await?.status;
    app.global.output.one(&answer, || match (switch, changed) {
        (_, true) => format!("route {route} is {done}"),
        (Switch::Pause, false) => format!("route {route} is already paused"),
        (Switch::Resume, false) => not_paused(&stands),
    })?;
    Ok(Exit::Done)
}

/// Describes a route that was not paused, and what to do if it does not run for another reason.
fn not_paused(status: &RouteStatus) -> String {
    let (route, state) = (&status.route, status.state.as_str().replace('_', " "));
    match status.state {
        RouteState::Running => format!("route {route} is not paused; it is running"),
        RouteState::BreakerOpen | RouteState::HalfOpen | RouteState::Slowed => {
            let why = status::message(&status.clone().into(), Timestamp::now());
            // A slowed route is sending: there is nothing to wait for that a probe would cut short.
            let probe = format!("; try now: `postroom route probe {route}`");
            let next = if status.state == RouteState::Slowed { "" } else { &probe };
            format!("route {route} is not paused; it is {state} {why}{next}")
        }
        _ => format!("route {route} is not paused; it is {state}: {}", status.message),
    }
}

/// How long `route probe` waits for the outcome of the attempt.
const PROBED_WITHIN: Duration = Duration::from_secs(15);

async fn try_now(app: &App, args: &ActArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.which.store).await?;
    let before = opened.route(&args.which.route).await?.status;
    let route = &before.route;
    if !matches!(before.state, RouteState::BreakerOpen | RouteState::HalfOpen) {
        let state = before.state.as_str().replace('_', " ");
        let hint =
            format!("`postroom route show {route}` shows its state; `postroom route test {route}` sends a test event");
        return Err(Failed::new(Exit::Failed, format!("route {route} is {state}: its breaker is not open"), hint));
    }
    if app.global.dry_run {
        note(&format!("would try the destination of route {route} now; nothing was changed"))?;
        return Ok(Exit::Done);
    }
    let admin = opened.admin();
    admin.probe(route, &actor(&args.reason)).await?;
    let deadline = Instant::now() + PROBED_WITHIN;
    let mut status = before.clone();
    // An attempt that failed shows as another time of the next one; half-open, it is on its way.
    let is_waiting = |status: &RouteStatus| {
        status.state == RouteState::HalfOpen || (status.state, status.next_try) == (before.state, before.next_try)
    };
    while Instant::now() < deadline && is_waiting(&status) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        status = opened.route(route).await?.status;
    }
    let answer =
        json!({ "route": route, "state": status.state, "message": status.message, "next_try": status.next_try });
    let said = if status.state == RouteState::Running {
        format!("route {route} is running again")
    } else {
        let why = status::message(&status.clone().into(), Timestamp::now());
        format!("route {route} is still {}: {why}", status.state.as_str().replace('_', " "))
    };
    app.global.output.one(&answer, || said)?;
    Ok(if status.state == RouteState::Running { Exit::Done } else { Exit::Failed })
}

async fn rename(app: &App, args: &RenameArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let status = opened.route(&args.route).await?.status;
    let (route, to) = (&status.route, &args.to);
    let left = Undelivered::of(&*opened.admin(), &status).await?;
    let what =
        format!("route {route} to {to}, with its position ({} delivered) and what is left: {left}", status.delivered);
    let answer =
        json!({ "route": route, "to": to, "due": status.due, "dead": status.dead, "renamed": !app.global.dry_run });
    if app.global.dry_run {
        app.global.output.one(&answer, || format!("would rename {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("about to rename {what}"))?;
    confirm(&app.global, &format!("Rename route {route} to {to}?"))?;
    opened.admin().rename(route, to, &actor(&args.reason)).await.map_err(Failed::from)?;
    app.global.output.one(&answer, || format!("route {route} is now {to}"))?;
    Ok(Exit::Done)
}

async fn forget(app: &App, args: &ForgetArgs) -> Outcome {
    let (config, confirmed, args) = (app.config()?, args.confirm, &args.act);
    let opened = app.open(&config, &args.which.store).await?;
    let status = opened.route(&args.which.route).await?.status;
    let route = &status.route;
    let left = Undelivered::of(&*opened.admin(), &status).await?;
    let what =
        format!("route {route}: its position ({} delivered), and what it has to deliver: {left}", status.delivered);
    let answer = json!({
        "route": route,
        "due": status.due,
        "dead": status.dead,
        "lost": left.deliveries(),
        "lost_estimated": !left.is_exact(),
        "forgotten": !app.global.dry_run,
    });
    if app.global.dry_run {
        app.global.output.one(&answer, || format!("would forget {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("this will forget {what}"))?;
    confirm_lost(&app.global, &format!("Forget route {route}, and lose {left} for it?"), &left, confirmed)?;
    opened.admin().forget(route, &actor(&args.reason)).await.map_err(Failed::from)?;
    app.global.output.one(&answer, || format!("forgot route {route}"))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use postroom_admin::view::Counts;

    use super::*;

    #[test]
    fn a_line_that_is_too_wide_is_broken_between_words() {
        let text = "orders  to webhook  running\n  on failure      a message that goes on and on for many words, wide";
        let broken = "orders  to webhook  running\n  on failure      a message that goes\n                  on and on for many\n                  words, wide";
        assert_eq!(wrapped(text, Some(38)), broken);
        assert_eq!(wrapped(text, None), text);
        let word = format!("  note            {}", "x".repeat(80));
        assert_eq!(wrapped(&word, Some(60)), format!("  note\n                  {}", "x".repeat(80)));
    }

    #[test]
    fn a_backlog_that_moves_says_when_it_is_gone() {
        assert_eq!(backlog(600, 10.0), "; at this rate the backlog is gone in about 1m00s");
        assert_eq!(backlog(600, 0.0), "");
        assert_eq!(backlog(0, 10.0), "");
    }

    #[test]
    fn lanes_of_one_holder_are_one_line_that_says_how_often_they_changed_hands() {
        let lane = |lane, term| LaneRow {
            lane,
            holder: Some("relay-1".to_owned()),
            term,
            hwm: 10 + i64::from(lane),
            unsettled: 1,
            counts: Counts::default(),
        };
        let line = held(&[lane(0, 1), lane(1, 3)]);
        assert_eq!(line, "\n  lanes 0-1  held by relay-1, taken 3x so far  position 11  unsettled 2");
        assert_eq!(held(&[lane(2, 1)]), "\n  lane 2  held by relay-1  position 12  unsettled 1");
    }
}
