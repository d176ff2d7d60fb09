//! Replays that are there: looking at them, working on one, stopping it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use postroom_admin::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_admin::{Admin, ReplayChange, ReplayOrder};
use postroom_core::{Actor, StoreErrorKind};
use postroom_server::replays::work;
use serde::Serialize;

use crate::actor::actor;
use crate::app::App;
use crate::commands::preview;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::Narrower::{Drop, Shorten, ShortenId};
use crate::output::{Table, count, dash, note};
use crate::{ids, stop, suggest, when};

/// Number of replays searched for the nearest id.
const LOOK_BACK: usize = 1000;

/// List, pause, resume and cancel replays
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ReplayCommand {
    /// List replays, newest first
    #[command(after_help = help!(store: "postroom replay ls", "postroom replay ls --state running -o json"))]
    Ls {
        /// Only replays in this state: running, paused, cancelled, delivering or done
        #[arg(long, value_name = "STATE", value_parser = state)]
        state: Option<ReplayState>,
        /// Maximum number of replays
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Show a replay: its selection, its progress, and what became of its deliveries
    #[command(after_help = help!(store:
        "postroom replay show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
        "postroom replay show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --watch",
    ))]
    Show {
        /// Id of the replay, or a prefix of at least 8 characters that no other id has
        #[arg(value_name = "ID")]
        id: String,
        /// Wait until all its deliveries are settled, or the replay is paused or cancelled
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Pause a replay; deliveries that are already due stay due
    #[command(after_help = help!(store: "postroom replay pause 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
    Pause(ChangeArgs),
    /// Resume a paused replay
    #[command(after_help = help!(replay:
        "postroom replay resume 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
        "postroom replay resume 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --detach",
    ))]
    Resume {
        #[command(flatten)]
        which: ChangeArgs,
        /// Return at once and leave the replay to a relay
        #[arg(long)]
        detach: bool,
    },
    /// Cancel a replay; deliveries that are already due stay due
    #[command(after_help = help!(store: "postroom replay cancel 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --reason 'wrong route'"))]
    Cancel(ChangeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// Id of the replay, or a prefix of at least 8 characters that no other id has
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

fn state(word: &str) -> Result<ReplayState, String> {
    ReplayState::parse(word).ok_or_else(|| "it must be running, paused, cancelled, delivering or done".to_owned())
}

pub(crate) async fn run(app: &App, command: ReplayCommand) -> Outcome {
    match command {
        ReplayCommand::Ls { state, limit, store } => {
            let rows = app.open(&app.config()?, &store).await?.admin().replays(state, limit).await?;
            app.global.output.list(&rows, || table(&rows))?;
            Ok(Exit::Done)
        }
        ReplayCommand::Show { id, watch, store } => {
            let admin = app.open(&app.config()?, &store).await?.admin();
            let mut row = find(&*admin, &id).await?;
            if watch {
                row = watched(&*admin, row).await?;
            }
            app.global.output.one(&row, || render(&row))?;
            Ok(Exit::Done)
        }
        ReplayCommand::Pause(args) => change(app, &args, ReplayChange::Pause, true).await,
        ReplayCommand::Resume { which, detach } => change(app, &which, ReplayChange::Resume, detach).await,
        ReplayCommand::Cancel(args) => change(app, &args, ReplayChange::Cancel, true).await,
    }
}

/// Finds the replay with this id or prefix of an id, or returns an error that names the nearest ids.
async fn find(admin: &dyn Admin, id: &str) -> Result<ReplayRow, Failed> {
    if let Some(row) = admin.replay(id).await? {
        return Ok(row);
    }
    let known: Vec<String> = admin.replays(None, LOOK_BACK).await?.into_iter().map(|row| row.id).collect();
    let otherwise = "list what there is: `postroom replay ls`";
    let whole = ids::only("replay", id, &known, otherwise)?;
    admin.replay(whole).await?.ok_or_else(|| suggest::unknown("replay", whole, &[], otherwise))
}

async fn change(app: &App, args: &ChangeArgs, change: ReplayChange, detach: bool) -> Outcome {
    let admin = app.open(&app.config()?, &args.store).await?.admin();
    let id = find(&*admin, &args.id).await?.id;
    let actor = actor(&args.reason);
    if app.global.dry_run {
        note(&format!("replay {id} would be {}; nothing was changed", change.to().as_str()))?;
        return Ok(Exit::Done);
    }
    let changed = admin.change_replay(&id, change, &actor).await?;
    if change == ReplayChange::Resume && !detach {
        let row = foreground(&*admin, &id, &actor).await?;
        app.global.output.one(&row, || summary(&row))?;
        return end(&row);
    }
    let row = find(&*admin, &id).await?;
    let already = if changed { "" } else { "already " };
    app.global.output.one(&row, || format!("replay {id} is {already}{}", progress(&row)))?;
    Ok(Exit::Done)
}

/// Deliveries that were made due, and the replay that did it.
#[derive(Serialize)]
struct Replayed {
    #[serde(flatten)]
    affected: Affected,
    replay: String,
    state: ReplayState,
}

/// Starts a replay and runs it, or leaves it to a relay.
pub(crate) async fn begin(
    app: &App,
    admin: &dyn Admin,
    order: &ReplayOrder,
    preview: Affected,
    actor: &Actor,
    detach: bool,
) -> Outcome {
    let mut row = admin.start_replay(order, actor).await?;
    if !detach {
        row = foreground(admin, &row.id, actor).await?;
    }
    let affected = Affected { deliveries: row.done, ..preview };
    let shown = Replayed { affected, replay: row.id.clone(), state: row.state };
    app.global.output.one(&shown, || match row.state {
        ReplayState::Done | ReplayState::Delivering => {
            format!("replayed {}; replay {}", preview::affected(&shown.affected), row.id)
        }
        _ => summary(&row),
    })?;
    if detach { Ok(Exit::Done) } else { end(&row) }
}

/// Runs a replay until it ends or is stopped; a signal pauses it.
async fn foreground(admin: &dyn Admin, id: &str, actor: &Actor) -> Result<ReplayRow, Failed> {
    let stop = stop::on_signal()?;
    let mut line = Line { terminal: io::stderr().is_terminal(), drawn: false };
    let worked = tokio::select! {
        worked = work(admin, id, |row| line.show(row)) => Some(worked),
        () = stop.cancelled() => None,
    };
    line.clear();
    match worked {
        Some(Ok(row)) => Ok(row),
        Some(Err(error)) => {
            note(&format!("replay {id} is not done; a relay goes on with it, or `postroom replay resume {id}`"))?;
            Err(error.into())
        }
        None => {
            let actor = Actor { reason: Some("interrupted".to_owned()), ..actor.clone() };
            match admin.change_replay(id, ReplayChange::Pause, &actor).await {
                // It ended just then.
                Err(error) if error.kind == StoreErrorKind::Conflict => {}
                other => drop(other?),
            }
            find(admin, id).await
        }
    }
}

/// Waits until the deliveries of a replay are settled, or nobody works on it, or a signal comes.
async fn watched(admin: &dyn Admin, mut row: ReplayRow) -> Result<ReplayRow, Failed> {
    let stop = stop::on_signal()?;
    let mut line = Line { terminal: io::stderr().is_terminal(), drawn: false };
    let mut each_second = tokio::time::interval(Duration::from_secs(1));
    while matches!(row.state, ReplayState::Running | ReplayState::Delivering) {
        line.show(&row);
        tokio::select! {
            () = stop.cancelled() => break,
            _ = each_second.tick() => row = find(admin, &row.id).await?,
        }
    }
    line.clear();
    Ok(row)
}

/// Returns the exit code of the command after the replay.
fn end(row: &ReplayRow) -> Outcome {
    match row.state {
        ReplayState::Paused => note(&format!("it is paused; `postroom replay resume {}` continues it", row.id))?,
        ReplayState::Delivering => note(&format!("follow it: `postroom replay show {} --watch`", row.id))?,
        _ => {}
    }
    Ok(if matches!(row.state, ReplayState::Done | ReplayState::Delivering) { Exit::Done } else { Exit::Partly })
}

/// Progress line on a terminal, rewritten in place.
struct Line {
    terminal: bool,
    drawn: bool,
}

impl Line {
    fn show(&mut self, row: &ReplayRow) {
        if self.terminal {
            // Nobody is told less when it cannot be drawn.
            let _ = write!(io::stderr(), "\r\x1b[K{}", progress(row));
            let _ = io::stderr().flush();
            self.drawn = true;
        }
    }

    fn clear(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Describes the progress: `delivering, 10 of 10 deliveries made due: 7 delivered, 2 pending, 1 dead again`.
fn progress(row: &ReplayRow) -> String {
    let made = format!("{}, {} of {} made due", row.state.as_str(), row.done, count(row.total, "delivery"));
    match (row.delivered, row.pending, row.dead) {
        (Some(delivered), Some(pending), Some(dead)) if row.done > 0 => {
            format!("{made}: {delivered} delivered, {pending} pending, {dead} dead again")
        }
        _ => made,
    }
}

fn summary(row: &ReplayRow) -> String {
    let rate = row.rate.map(|rate| format!(" at {rate}/s")).unwrap_or_default();
    format!("replay {} is {}{rate}", row.id, progress(row))
}

fn table(rows: &[ReplayRow]) -> Table {
    let columns =
        ["created", "id", "what", "state", "done", "total", "delivered", "dead", "rate", "by", "selection", "reason"];
    let mut table = Table::new(&columns, &[4, 5, 6, 7, 8]).narrower(&[
        Shorten("selection"),
        Shorten("reason"),
        Drop("rate"),
        Drop("reason"),
        Drop("selection"),
        Drop("by"),
        ShortenId("id"),
        Drop("what"),
    ]);
    for row in rows {
        table.row([
            when::listed(row.created_at),
            row.id.clone(),
            row.what.as_str().to_owned(),
            row.state.as_str().to_owned(),
            row.done.to_string(),
            row.total.to_string(),
            dash(row.delivered.as_ref()),
            dash(row.dead.as_ref()),
            dash(row.rate.as_ref()),
            row.actor.clone(),
            row.selection.describe(),
            dash(row.reason.as_ref()),
        ]);
    }
    table
}

fn render(row: &ReplayRow) -> String {
    let what = match row.what {
        ReplayKind::Settled => "settled events",
        ReplayKind::Dead => "dead letters",
    };
    let mut text = format!("{}\n  {what} of {}", summary(row), row.selection.describe());
    if row.allow_duplicates {
        text.push_str(", also those that the inbox has forgotten");
    }
    let _ = write!(text, "\n  by        {}", row.actor);
    if let Some(reason) = &row.reason {
        let _ = write!(text, " ({reason})");
    }
    let _ = write!(text, "\n  created   {}", when::seconds(row.created_at));
    if let Some(ended) = row.ended_at {
        let _ = write!(text, "\n  ended     {}", when::seconds(ended));
    }
    text
}
