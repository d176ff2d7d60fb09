//! `postroom replay`: sends settled events again, to the routes that want them. What is done to replays that are there is
//! [`crate::commands::replays`].

use postroom_admin::ReplayOrder;
use postroom_admin::view::ReplayKind;
use postroom_core::units::parse_rate;

use crate::actor::actor;
use crate::app::App;
use crate::commands::dead::go_on;
use crate::commands::replays::{self, ReplayCommand};
use crate::commands::which::{Extent, WhichDeliveries};
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};

/// Replay settled events with the same ids to the routes that match them
#[derive(Debug, clap::Args)]
#[command(subcommand_precedence_over_arg = true, after_help = help!(replay:
    "postroom replay --route search --type 'order.*' --from 2h --dry-run",
    "postroom replay --route search --from 2026-11-15T09:00:00Z --to 2026-11-15T10:00:00Z --rate 50/s",
    "postroom replay 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --yes",
))]
pub(crate) struct ReplayArgs {
    #[command(subcommand)]
    command: Option<ReplayCommand>,
    #[command(flatten)]
    which: WhichDeliveries,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    how: How,
    /// Replay events older than the inbox retention, too: consumers may process them twice
    #[arg(long)]
    allow_duplicates: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

/// Options of a replay.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct How {
    /// Maximum deliveries per second, for instance 50/s [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Return at once and leave the replay to a relay
    #[arg(long)]
    pub(crate) detach: bool,
}

pub(crate) async fn run(app: &App, args: ReplayArgs) -> Outcome {
    if let Some(command) = args.command {
        // Global options may stand anywhere, which clap can only have together with those of a replay's own.
        let nothing = args.which == WhichDeliveries::default()
            && args.extent == Extent::default()
            && args.how == How::default()
            && !args.allow_duplicates;
        if !nothing || args.reason.reason.is_some() || args.store.store.is_some() {
            let message = "options of a new replay stand before a command about replays that are there";
            return Err(Failed::new(
                Exit::Usage,
                message,
                "leave them out, or put --store and --reason behind the command",
            ));
        }
        return replays::run(app, command).await;
    }
    args.extent.check(&args.which.selection())?;
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let which = args.which.resolve(&opened).await?;
    let (admin, actor) = (opened.admin(), actor(&args.reason));
    let preview = admin.preview_replay(ReplayKind::Settled, &which, config.retention.inbox).await?;
    if preview.older_than_inbox > 0 && !args.allow_duplicates && !app.global.dry_run {
        let message = format!(
            "{} of {} deliveries are older than the inbox remembers: consumers could do their work twice",
            preview.older_than_inbox, preview.deliveries
        );
        return Err(Failed::new(Exit::Refused, message, "narrow it with --from, or add --allow-duplicates"));
    }
    if !go_on(app, &preview, &args.extent, "replay", "Replay")? {
        return Ok(Exit::Done);
    }
    let order = ReplayOrder {
        what: ReplayKind::Settled,
        which,
        rate: args.how.rate,
        allow_duplicates: args.allow_duplicates,
        total: preview.deliveries,
    };
    replays::begin(app, &*admin, &order, preview, &actor, args.how.detach).await
}

/// Parses a rate for clap.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    parse_rate(text)
}
