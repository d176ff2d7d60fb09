//! `postroom replay`: sends settled events again, to the routes that want them.

use postroom_core::ReplayOptions;
use postroom_core::units::parse_rate;

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::commands::dead::go_on;
use crate::commands::preview;
use crate::commands::which::WhichDeliveries;
use crate::exit::{Exit, Failed, Outcome};

/// Send settled events again, with the same ids, to the routes that want them
#[derive(Debug, clap::Args)]
#[command(after_help = help!(ask:
    "postroom replay --route search --type 'order.*' --from 2h --dry-run",
    "postroom replay --route search --from 2026-11-15T09:00:00Z --to 2026-11-15T10:00:00Z --rate 50/s",
    "postroom replay 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --yes",
))]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    which: WhichDeliveries,
    /// Deliveries per second, for instance 50/s [default: all at once]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Also events older than the inbox remembers: a consumer may do their work twice
    #[arg(long)]
    allow_duplicates: bool,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &ReplayArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    args.which.check(&opened).await?;
    let (desk, which, actor) = (opened.desk(), args.which.selection(), actor(&args.reason));
    let how = ReplayOptions { rate: args.rate, dry_run: true, inbox_window: config.retention.inbox };
    let preview = desk.replay(&which, how, &actor).await?;
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
    let done = desk.replay(&which, ReplayOptions { dry_run: false, ..how }, &actor).await?;
    app.global.output.one(&done, || format!("replayed {}", preview::affected(&done)))?;
    Ok(Exit::Done)
}

/// A rate, for clap.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    parse_rate(text)
}
