//! `postroom route`: what there is, stop one, let it go on, try it, forget it.

use std::fmt::Write as _;
use std::time::Duration;

use postroom_core::Timestamp;
use postroom_core::view::{MinuteRow, RouteDetail};
use serde::Serialize;
use serde_json::json;

use crate::actor::actor;
use crate::app::{self, App};
use crate::args::{Reason, StoreArg, help};
use crate::commands::{probe, spark, status};
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{count, note};
use crate::when;

/// Look at routes, pause and resume them, try them, forget them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RouteCommand {
    /// List routes, registered or only configured
    #[command(after_help = help!(store: "postroom route ls", "postroom route ls -o json"))]
    Ls {
        #[command(flatten)]
        store: StoreArg,
    },
    /// Show one route: what it wants, how it is doing, its position
    #[command(after_help = help!(store: "postroom route show orders"))]
    Show(RouteArgs),
    /// Stop a route; nothing is lost, it only waits
    #[command(after_help = help!(store: "postroom route pause mailer --reason 'mail server moves'"))]
    Pause(ActArgs),
    /// Let a paused route go on
    #[command(after_help = help!(store: "postroom route resume mailer"))]
    Resume(ActArgs),
    /// Send one marked event through a route's transport, past the store: no other route sees it
    #[command(after_help = help!(probe: "postroom route test orders", "postroom route test orders --type order.placed"))]
    Test(probe::TestArgs),
    /// Remove a route with its position, its open deliveries and its dead letters
    #[command(after_help = help!(ask: "postroom route forget mailer --dry-run", "postroom route forget mailer --yes"))]
    Forget(ActArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RouteArgs {
    /// The route
    #[arg(value_name = "ROUTE")]
    route: String,
    #[command(flatten)]
    store: StoreArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ActArgs {
    #[command(flatten)]
    which: RouteArgs,
    #[command(flatten)]
    reason: Reason,
}

pub(crate) async fn run(app: &App, command: RouteCommand) -> Outcome {
    match command {
        RouteCommand::Ls { store } => ls(app, &store).await,
        RouteCommand::Show(args) => show(app, &args).await,
        RouteCommand::Pause(args) => switch(app, &args, Switch::Pause).await,
        RouteCommand::Resume(args) => switch(app, &args, Switch::Resume).await,
        RouteCommand::Test(args) => probe::run(app, &args).await,
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

/// A route, and what it did in the last hour.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    detail: RouteDetail,
    minutes: Vec<MinuteRow>,
}

async fn show(app: &App, args: &RouteArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let detail = opened.route(&args.route).await?;
    let now = Timestamp::now();
    let hour = now.checked_sub(Duration::from_mins(59)).unwrap_or(now);
    let minutes = opened.desk().minutes(Some(&args.route), hour).await?;
    let shown = Shown { detail, minutes };
    app.global.output.one(&shown, || render(&shown.detail) + &spark::hour(&shown.minutes, now))?;
    Ok(Exit::Done)
}

fn render(detail: &RouteDetail) -> String {
    let status = &detail.status;
    let listed = |list: &[String]| if list.is_empty() { "*".to_owned() } else { list.join(", ") };
    let state = status.state.as_str().replace('_', " ");
    let mut text = format!("{}  to {}  {state}", status.route, status.to);
    if !status.note.is_empty() {
        let _ = write!(text, "  ({})", status.note);
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
    if let Some(by) = &detail.paused_by {
        let _ = write!(text, "\n  paused by       {by}");
    }
    let _ = write!(
        text,
        "\n  delivered {}  due {}  retrying {}  blocked keys {}  dead {}",
        status.delivered, status.due, status.retrying, status.blocked_keys, status.dead
    );
    for lane in &detail.lanes {
        let holder = lane.holder.as_deref().unwrap_or("nobody");
        let _ = write!(
            text,
            "\n  lane {}  position {}  unsettled {}  held by {holder} (term {})",
            lane.lane, lane.hwm, lane.unsettled, lane.term
        );
    }
    text
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
        Switch::Pause => opened.desk().pause(&route, &actor).await?,
        Switch::Resume => opened.desk().resume(&route, &actor).await?,
    };
    let already = if changed { "" } else { "already " };
    let answer = json!({ "route": route, "state": done, "changed": changed });
    app.global.output.one(&answer, || format!("route {route} is {already}{done}"))?;
    Ok(Exit::Done)
}

async fn forget(app: &App, args: &ActArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.which.store).await?;
    let status = opened.route(&args.which.route).await?.status;
    let route = &status.route;
    let what = format!(
        "route {route}: its position ({} delivered), {}, {} retrying, {}, {}",
        status.delivered,
        count(status.due, "due delivery"),
        status.retrying,
        count(status.blocked_keys, "blocked key"),
        count(status.dead, "dead letter"),
    );
    let answer = json!({ "route": route, "due": status.due, "dead": status.dead, "forgotten": !app.global.dry_run });
    if app.global.dry_run {
        app.global.output.one(&answer, || format!("would forget {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("this will forget {what}"))?;
    confirm(&app.global, &format!("Forget route {route}?"))?;
    opened.desk().forget(route, &actor(&args.reason)).await.map_err(Failed::from)?;
    app.global.output.one(&answer, || format!("forgot route {route}"))?;
    Ok(Exit::Done)
}
