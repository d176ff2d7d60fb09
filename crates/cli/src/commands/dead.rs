//! `postroom dead`: deliveries that were given up; look, send again, or let go.

use postroom_admin::ReplayOrder;
use postroom_admin::view::{Affected, ReplayKind};
use postroom_core::DeliveryState;

use crate::actor::actor;
use crate::app::App;
use crate::commands::event::{self, find, render};
use crate::commands::replay::How;
use crate::commands::which::{Extent, WhichFailed};
use crate::commands::{compare, delivery, preview, replays};
use crate::confirm::confirm_many;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::{note, shell};

/// List, group, compare, replay and discard dead letters
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeadCommand {
    Ls(LsArgs),
    Groups(GroupsArgs),
    Compare(compare::CompareArgs),
    Show(ShowArgs),
    Replay(ReplayDeadArgs),
    Discard(DiscardArgs),
}

/// List dead letters, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom dead ls", "postroom dead ls --route mailer --code exec.timeout -o json"))]
pub(crate) struct LsArgs {
    #[command(flatten)]
    which: WhichFailed,
    /// Maximum number of dead letters
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Only dead letters after this position, for the next page
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
    #[command(flatten)]
    store: StoreArg,
}

/// Group dead letters by route, code and cause, and count them by event type and tenant
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom dead groups", "postroom dead groups --route mailer -o json"))]
pub(crate) struct GroupsArgs {
    #[command(flatten)]
    which: WhichFailed,
    /// Maximum number of groups
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    store: StoreArg,
}

/// Show why an event became a dead letter: every attempt on every route that gave up on it
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom dead show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
pub(crate) struct ShowArgs {
    /// Id of the event, or a prefix of at least 8 characters that no other id has
    #[arg(value_name = "ID")]
    id: String,
    /// Show the payload, redacted by `http.redact`, too
    #[arg(long)]
    payload: bool,
    #[command(flatten)]
    store: StoreArg,
}

/// Replay dead letters with the same ids; their attempts start at 0 again
#[derive(Debug, clap::Args)]
#[command(after_help = help!(replay:
    "postroom dead replay --route mailer --dry-run",
    "postroom dead replay 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11",
    "postroom dead replay --code exec.timeout --rate 50/s --reason 'mail server is back' --yes",
))]
pub(crate) struct ReplayDeadArgs {
    #[command(flatten)]
    which: WhichFailed,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

/// Discard dead letters permanently, and unblock the keys that wait for them
#[derive(Debug, clap::Args)]
#[command(after_help = help!(ask:
    "postroom dead discard --route mailer --type 'test.*' --dry-run",
    "postroom dead discard 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --reason 'sent by hand'",
))]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    which: WhichFailed,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, command: DeadCommand) -> Outcome {
    match command {
        DeadCommand::Ls(args) => {
            delivery::ls(app, &[DeliveryState::Dead], &args.which, (args.after, args.limit), &args.store).await
        }
        DeadCommand::Groups(args) => {
            delivery::groups(app, &[DeliveryState::Dead], &args.which, args.limit, &args.store).await
        }
        DeadCommand::Compare(args) => compare::run(app, &args).await,
        DeadCommand::Show(args) => show(app, &args).await,
        DeadCommand::Replay(args) => replay(app, &args).await,
        DeadCommand::Discard(args) => discard(app, &args).await,
    }
}

async fn show(app: &App, args: &ShowArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let mut timeline = find(&*admin, &args.id, args.payload.then_some(&config.http.redact)).await?;
    timeline.routes.retain(|route| route.state == "dead");
    if timeline.routes.is_empty() {
        let id = &timeline.event.id;
        let message = format!("event {id:?} is not a dead letter on any route");
        return Err(Failed::new(
            Exit::Failed,
            message,
            format!("see where it is: `postroom event show {}`", shell(id)),
        ));
    }
    let causes = event::causes(&*admin, &timeline).await;
    app.global.output.one(&timeline, || render(&timeline, &causes))?;
    Ok(Exit::Done)
}

async fn replay(app: &App, args: &ReplayDeadArgs) -> Outcome {
    args.extent.check(&args.which.selection())?;
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let which = args.which.resolve(&opened).await?;
    let (admin, actor) = (opened.admin(), actor(&args.reason));
    let preview = admin.preview_replay(ReplayKind::Dead, &which, config.retention.inbox).await?;
    if !go_on(app, &preview, &args.extent, "replay", "Replay")? {
        return Ok(Exit::Done);
    }
    let total = preview.deliveries;
    let order = ReplayOrder { what: ReplayKind::Dead, which, rate: args.how.rate, allow_duplicates: false, total };
    replays::begin(app, &*admin, &order, preview, &actor, args.how.detach).await
}

async fn discard(app: &App, args: &DiscardArgs) -> Outcome {
    args.extent.check(&args.which.selection())?;
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let mut which = args.which.resolve(&opened).await?;
    let (admin, actor) = (opened.admin(), actor(&args.reason));
    let preview = admin.discard_dead(&which, true, &actor).await?;
    if !go_on(app, &preview, &args.extent, "discard", "Discard, for good,")? {
        return Ok(Exit::Done);
    }
    // What has died since nobody has seen.
    which.died_by = preview.died_by;
    let done = admin.discard_dead(&which, false, &actor).await?;
    app.global.output.one(&done, || format!("discarded {}", preview::affected(&done)))?;
    Ok(Exit::Done)
}

/// Previews the affected deliveries and asks. Returns false if there are none, or in a dry run.
pub(crate) fn go_on(
    app: &App,
    preview: &Affected,
    extent: &Extent,
    verb: &str,
    question: &str,
) -> Result<bool, Failed> {
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
    confirm_many(&app.global, &format!("{question} {what}?"), preview.deliveries, extent.confirm)?;
    Ok(true)
}
