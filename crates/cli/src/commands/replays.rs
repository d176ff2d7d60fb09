//! Replays that are there: looking at them, working on one, stopping it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use postroom_core::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_core::{Actor, Desk, ReplayChange, ReplayOrder, StoreErrorKind};
use postroom_server::replays::work;
use serde::Serialize;

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::commands::preview;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Table, count, dash, note};
use crate::{stop, suggest, when};

/// Most replays looked through for an id that was meant.
const LOOK_BACK: usize = 1000;

/// Look at replays, pause, resume and cancel them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ReplayCommand {
    /// List replays, newest first
    #[command(after_help = help!(store: "postroom replay ls", "postroom replay ls --state running -o json"))]
    Ls {
        /// Only those in this state: running, paused, cancelled or done
        #[arg(long, value_name = "STATE", value_parser = state)]
        state: Option<ReplayState>,
        /// Most replays
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Show one replay: what it sends again, and how far it is
    #[command(after_help = help!(store: "postroom replay show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
    Show {
        /// The replay's id
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Stop a replay for now; what it has made due stays due
    #[command(after_help = help!(store: "postroom replay pause 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
    Pause(ChangeArgs),
    /// Go on with a paused replay
    #[command(after_help = help!(replay:
        "postroom replay resume 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
        "postroom replay resume 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --detach",
    ))]
    Resume {
        #[command(flatten)]
        which: ChangeArgs,
        /// Do not wait for it: a relay goes on with it
        #[arg(long)]
        detach: bool,
    },
    /// End a replay before it is done; what it has made due stays due
    #[command(after_help = help!(store: "postroom replay cancel 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --reason 'wrong route'"))]
    Cancel(ChangeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// The replay's id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

fn state(word: &str) -> Result<ReplayState, String> {
    ReplayState::parse(word).ok_or_else(|| "it must be running, paused, cancelled or done".to_owned())
}

pub(crate) async fn run(app: &App, command: ReplayCommand) -> Outcome {
    match command {
        ReplayCommand::Ls { state, limit, store } => {
            let rows = app.open(&app.config()?, &store).await?.desk().replays(state, limit).await?;
            app.global.output.list(&rows, || table(&rows))?;
            Ok(Exit::Done)
        }
        ReplayCommand::Show { id, store } => {
            let desk = app.open(&app.config()?, &store).await?.desk();
            let row = find(&*desk, &id).await?;
            app.global.output.one(&row, || render(&row))?;
            Ok(Exit::Done)
        }
        ReplayCommand::Pause(args) => change(app, &args, ReplayChange::Pause, true).await,
        ReplayCommand::Resume { which, detach } => change(app, &which, ReplayChange::Resume, detach).await,
        ReplayCommand::Cancel(args) => change(app, &args, ReplayChange::Cancel, true).await,
    }
}

/// The replay, or an error that names the nearest.
async fn find(desk: &dyn Desk, id: &str) -> Result<ReplayRow, Failed> {
    if let Some(row) = desk.replay(id).await? {
        return Ok(row);
    }
    let known: Vec<String> = desk.replays(None, LOOK_BACK).await?.into_iter().map(|row| row.id).collect();
    Err(suggest::unknown("replay", id, &known, "list what there is: `postroom replay ls`"))
}

async fn change(app: &App, args: &ChangeArgs, change: ReplayChange, detach: bool) -> Outcome {
    let desk = app.open(&app.config()?, &args.store).await?.desk();
    let id = find(&*desk, &args.id).await?.id;
    let actor = actor(&args.reason);
    if app.global.dry_run {
        note(&format!("replay {id} would be {}; nothing was changed", change.to().as_str()))?;
        return Ok(Exit::Done);
    }
    let changed = desk.change_replay(&id, change, &actor).await?;
    if change == ReplayChange::Resume && !detach {
        let row = foreground(&*desk, &id, &actor).await?;
        app.global.output.one(&row, || standing(&row))?;
        return end(&row);
    }
    let row = find(&*desk, &id).await?;
    let already = if changed { "" } else { "already " };
    app.global.output.one(&row, || format!("replay {id} is {already}{}", progress(&row)))?;
    Ok(Exit::Done)
}

/// What was sent again, and the replay that did it.
#[derive(Serialize)]
struct Replayed {
    #[serde(flatten)]
    affected: Affected,
    replay: String,
    state: ReplayState,
}

/// Begins a replay and works on it, or leaves that to a relay.
pub(crate) async fn begin(
    app: &App,
    desk: &dyn Desk,
    order: &ReplayOrder,
    preview: Affected,
    actor: &Actor,
    detach: bool,
) -> Outcome {
    let mut row = desk.start_replay(order, actor).await?;
    if !detach {
        row = foreground(desk, &row.id, actor).await?;
    }
    let affected = Affected { deliveries: row.done, ..preview };
    let shown = Replayed { affected, replay: row.id.clone(), state: row.state };
    app.global.output.one(&shown, || match row.state {
        ReplayState::Done => format!("replayed {}; replay {}", preview::affected(&shown.affected), row.id),
        _ => standing(&row),
    })?;
    if detach { Ok(Exit::Done) } else { end(&row) }
}

/// Works on a replay until it ends or somebody stops it; a signal pauses it.
async fn foreground(desk: &dyn Desk, id: &str, actor: &Actor) -> Result<ReplayRow, Failed> {
    let stop = stop::on_signal()?;
    let mut line = Line { terminal: io::stderr().is_terminal(), drawn: false };
    let worked = tokio::select! {
        worked = work(desk, id, |row| line.show(row)) => Some(worked),
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
            match desk.change_replay(id, ReplayChange::Pause, &actor).await {
                // It ended just then.
                Err(error) if error.kind == StoreErrorKind::Conflict => {}
                other => drop(other?),
            }
            find(desk, id).await
        }
    }
}

/// How the command ends, after the replay.
fn end(row: &ReplayRow) -> Outcome {
    if row.state == ReplayState::Paused {
        note(&format!("go on with it: `postroom replay resume {}`", row.id))?;
    }
    Ok(if row.state == ReplayState::Done { Exit::Done } else { Exit::Partly })
}

/// One line on a terminal, written over and over.
struct Line {
    terminal: bool,
    drawn: bool,
}

impl Line {
    fn show(&mut self, row: &ReplayRow) {
        if self.terminal {
            // Nobody is told less when it cannot be drawn.
            let _ = write!(io::stderr(), "\r\x1b[K{} of {} due", row.done, count(row.total, "delivery"));
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

/// `paused, 3 of 10 deliveries due`.
fn progress(row: &ReplayRow) -> String {
    format!("{}, {} of {} due", row.state.as_str(), row.done, count(row.total, "delivery"))
}

fn standing(row: &ReplayRow) -> String {
    let rate = row.rate.map(|rate| format!(" at {rate}/s")).unwrap_or_default();
    format!("replay {} is {}{rate}", row.id, progress(row))
}

fn table(rows: &[ReplayRow]) -> Table {
    let columns = ["created", "id", "what", "state", "done", "total", "rate", "by", "selection", "reason"];
    let mut table = Table::new(&columns, &[4, 5, 6]);
    for row in rows {
        table.row([
            when::seconds(row.created_at),
            row.id.clone(),
            row.what.as_str().to_owned(),
            row.state.as_str().to_owned(),
            row.done.to_string(),
            row.total.to_string(),
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
    let mut text = format!("{}\n  {what} of {}", standing(row), row.selection.describe());
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
