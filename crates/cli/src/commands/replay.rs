//! `postroom replay`: sends settled events again, to the routes that want them. What is done to replays that are there is
//! [`crate::commands::replays`].

use postroom_core::ReplayOrder;
use postroom_core::units::parse_rate;
use postroom_core::view::ReplayKind;

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::commands::dead::go_on;
use crate::commands::replays::{self, ReplayCommand};
use crate::commands::which::WhichDeliveries;
use crate::exit::{Exit, Failed, Outcome};

/// Send settled events again, with the same ids, to the routes that want them
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
    how: How,
    /// Also events older than the inbox remembers: a consumer may do their work twice
    #[arg(long)]
    allow_duplicates: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

/// How a replay is done.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct How {
    /// Deliveries per second, for instance 50/s [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Do not wait for it: a relay goes on with it
    #[arg(long)]
    pub(crate) detach: bool,
}

pub(crate) async fn run(app: &App, args: ReplayArgs) -> Outcome {
    if let Some(command) = args.command {
        // Global options may stand anywhere, which clap can only have together with those of a replay's own.
        let nothing = args.which == WhichDeliveries::default() && args.how == How::default() && !args.allow_duplicates;
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
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    args.which.check(&opened).await?;
    let (desk, which, actor) = (opened.desk(), args.which.selection(), actor(&args.reason));
    let preview = desk.preview_replay(ReplayKind::Settled, &which, config.retention.inbox).await?;
    if preview.older_than_inbox > 0 && !args.allow_duplicates && !app.global.dry_run {
        let message = format!(
            "{} of {} deliveries are older than the inbox remembers: consumers could do their work twice",
            preview.older_than_inbox, preview.deliveries
        );
        return Err(Failed::new(Exit::Refused, message, "narrow it with --from, or add --allow-duplicates"));
    }
    if !go_on(app, &preview, "replay", "Replay")? {
        return Ok(Exit::Done);
    }
    let order = ReplayOrder {
        what: ReplayKind::Settled,
        which,
        rate: args.how.rate,
        allow_duplicates: args.allow_duplicates,
        total: preview.deliveries,
    };
    replays::begin(app, &*desk, &order, preview, &actor, args.how.detach).await
}

/// A rate, for clap.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    parse_rate(text)
}
