//! `postroom dead`: deliveries that were given up; look, send again, or let go.

use postroom_core::view::{Affected, DeliveryRow, ReplayKind};
use postroom_core::{DEAD_GROUPED_MAX, ReplayOrder};

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::commands::event::{find, render};
use crate::commands::replay::How;
use crate::commands::which::WhichDead;
use crate::commands::{preview, replays};
use crate::confirm::confirm_many;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Table, dash, note};
use crate::when;

/// Look at dead letters, send them again, or let them go
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeadCommand {
    Ls(LsArgs),
    Groups(GroupsArgs),
    Show(ShowArgs),
    Replay(ReplayDeadArgs),
    Discard(DiscardArgs),
}

/// List dead letters, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom dead ls", "postroom dead ls --route mailer --code exec.timeout -o json"))]
pub(crate) struct LsArgs {
    #[command(flatten)]
    which: WhichDead,
    /// Most dead letters
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Only those after this position: the next page
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
    #[command(flatten)]
    store: StoreArg,
}

/// Count dead letters by route, code and type: what died of the same is one line
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom dead groups", "postroom dead groups --route mailer -o json"))]
pub(crate) struct GroupsArgs {
    #[command(flatten)]
    which: WhichDead,
    /// Most groups
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    store: StoreArg,
}

/// Show why an event became a dead letter: every try on every route that gave it up
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom dead show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
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

/// Make dead letters due again, with their attempts back at 0 and the same ids
#[derive(Debug, clap::Args)]
#[command(after_help = help!(replay:
    "postroom dead replay --route mailer --dry-run",
    "postroom dead replay 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
    "postroom dead replay --code exec.timeout --rate 50/s --reason 'mail server is back' --yes",
))]
pub(crate) struct ReplayDeadArgs {
    #[command(flatten)]
    which: WhichDead,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

/// Remove dead letters for good; their keys go on
#[derive(Debug, clap::Args)]
#[command(after_help = help!(ask:
    "postroom dead discard --route mailer --type 'test.*' --dry-run",
    "postroom dead discard 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --reason 'sent by hand'",
))]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    which: WhichDead,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, command: DeadCommand) -> Outcome {
    match command {
        DeadCommand::Ls(args) => ls(app, &args).await,
        DeadCommand::Groups(args) => groups(app, &args).await,
        DeadCommand::Show(args) => show(app, &args).await,
        DeadCommand::Replay(args) => replay(app, &args).await,
        DeadCommand::Discard(args) => discard(app, &args).await,
    }
}

async fn ls(app: &App, args: &LsArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    args.which.deliveries.check(&opened).await?;
    let rows = opened.desk().dead(&args.which.selection(), args.after, args.limit).await?;
    app.global.output.list(&rows, || table(&rows))?;
    if let Some(last) = rows.last().filter(|_| rows.len() >= args.limit && app.is_table()) {
        note(&format!("there may be more: --after {}", last.position))?;
    }
    Ok(Exit::Done)
}

fn table(rows: &[DeliveryRow]) -> Table {
    let columns = ["position", "route", "type", "key", "attempts", "since", "code", "error", "id"];
    let mut table = Table::new(&columns, &[0, 4]);
    for row in rows {
        table.row([
            row.position.to_string(),
            row.route.clone(),
            row.event_type.clone(),
            dash(row.key.as_ref()),
            row.attempts.to_string(),
            when::seconds(row.since),
            dash(row.code.as_ref()),
            dash(row.error.as_ref()),
            row.id.clone(),
        ]);
    }
    table
}

async fn groups(app: &App, args: &GroupsArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    args.which.deliveries.check(&opened).await?;
    let groups = opened.desk().dead_groups(&args.which.selection(), args.limit).await?;
    app.global.output.list(&groups, || {
        let columns = ["count", "keys", "route", "code", "type", "first", "last", "error", "sample"];
        let mut table = Table::new(&columns, &[0, 1]);
        for group in &groups {
            table.row([
                group.count.to_string(),
                group.keys.to_string(),
                group.route.clone(),
                dash(group.code.as_ref()),
                group.event_type.clone(),
                when::seconds(group.first_at),
                when::seconds(group.last_at),
                dash(group.error.as_ref()),
                group.sample.clone(),
            ]);
        }
        table
    })?;
    if app.is_table() && groups.iter().map(|group| group.count).sum::<u64>() >= DEAD_GROUPED_MAX {
        note(&format!("of the newest {DEAD_GROUPED_MAX} dead letters; there may be more"))?;
    }
    Ok(Exit::Done)
}

async fn show(app: &App, args: &ShowArgs) -> Outcome {
    let config = app.config()?;
    let desk = app.open(&config, &args.store).await?.desk();
    let mut timeline = find(&*desk, &args.id, args.payload).await?;
    timeline.routes.retain(|route| route.state == "dead");
    if timeline.routes.is_empty() {
        let message = format!("event {:?} is no dead letter on any route", args.id);
        return Err(Failed::new(Exit::Failed, message, format!("see where it is: `postroom event show {}`", args.id)));
    }
    app.global.output.one(&timeline, || render(&timeline))?;
    Ok(Exit::Done)
}

async fn replay(app: &App, args: &ReplayDeadArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    args.which.deliveries.check(&opened).await?;
    let (desk, which, actor) = (opened.desk(), args.which.selection(), actor(&args.reason));
    let preview = desk.preview_replay(ReplayKind::Dead, &which, config.retention.inbox).await?;
    if !go_on(app, &preview, "replay", "Replay")? {
        return Ok(Exit::Done);
    }
    let total = preview.deliveries;
    let order = ReplayOrder { what: ReplayKind::Dead, which, rate: args.how.rate, allow_duplicates: false, total };
    replays::begin(app, &*desk, &order, preview, &actor, args.how.detach).await
}

async fn discard(app: &App, args: &DiscardArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    args.which.deliveries.check(&opened).await?;
    let (desk, which, actor) = (opened.desk(), args.which.selection(), actor(&args.reason));
    let preview = desk.discard_dead(&which, true, &actor).await?;
    if !go_on(app, &preview, "discard", "Discard, for good,")? {
        return Ok(Exit::Done);
    }
    let done = desk.discard_dead(&which, false, &actor).await?;
    app.global.output.one(&done, || format!("discarded {}", preview::affected(&done)))?;
    Ok(Exit::Done)
}

/// Shows what would be touched, and asks. False when there is nothing to do, or it was only to look.
pub(crate) fn go_on(app: &App, preview: &Affected, verb: &str, question: &str) -> Result<bool, Failed> {
    let what = preview::affected(preview);
    if app.global.dry_run {
        app.global.output.one(preview, || format!("would {verb} {what}"))?;
        return Ok(false);
    }
    if preview.deliveries == 0 {
        app.global.output.one(preview, || format!("nothing to {verb}: no delivery fits"))?;
        return Ok(false);
    }
    note(&format!("this will {verb} {what}"))?;
    confirm_many(&app.global, &format!("{question} {what}?"), preview.deliveries)?;
    Ok(true)
}
