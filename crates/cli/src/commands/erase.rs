//! `postroom erase`: erases the payloads and headers of a key's events, and keeps the events.

use std::fmt::Write as _;

use postroom_admin::view::Erased;

use crate::actor::actor;
use crate::app::App;
use crate::confirm::confirm_many;
use crate::exit::{Exit, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::{count, note};
use crate::progress::during;

/// Erase the payloads and headers of a key's events and dead letters, keeping their ids and counts
#[derive(Debug, clap::Args)]
#[command(after_help = help!(ask:
    "postroom erase --key customer-17 --dry-run",
    "postroom erase --key customer-17 --reason 'request 4711'",
))]
pub(crate) struct EraseArgs {
    /// Ordering key of the events
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Erase events that a route has still to deliver too; their destinations get them without payload
    #[arg(long)]
    undelivered: bool,
    /// Number of affected events, as --dry-run reports it; needed above 1,000 without a terminal
    #[arg(long, value_name = "N")]
    confirm: Option<u64>,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &EraseArgs) -> Outcome {
    let (config, actor) = (app.config()?, actor(&args.reason));
    let admin = app.open(&config, &args.store).await?.admin();
    let counted = admin.erase_payloads(&args.key, args.undelivered, true, &actor);
    let preview = during("counting the payloads of the key", counted).await?;
    let what = describe(&preview);
    if app.global.dry_run || preview.events == 0 {
        app.global.output.one(&preview, || match preview.events {
            0 => format!("nothing to erase: the log has no payload of key {}", args.key),
            _ => format!("would erase {what}"),
        })?;
        return Ok(Exit::Done);
    }
    if preview.undelivered > 0 && !args.undelivered {
        return Err(postroom_admin::undelivered_payloads(&preview).into());
    }
    note(&format!("this will erase {what}; brokers, consumers and backups keep what they have"))?;
    confirm_many(&app.global, &format!("Erase, for good, {what}?"), preview.events, args.confirm)?;
    let erased = admin.erase_payloads(&args.key, args.undelivered, false, &actor);
    let erased = during("erasing the payloads of the key", erased).await?;
    app.global.output.one(&erased, || format!("erased {}", describe(&erased)))?;
    Ok(Exit::Done)
}

fn describe(erased: &Erased) -> String {
    let mut text = format!(
        "the payloads and headers of {} of key {} ({} of payload)",
        count(erased.events, "event"),
        erased.key,
        count(erased.bytes, "byte")
    );
    if erased.dead_letters > 0 {
        let _ = write!(text, ", {} among them", count(erased.dead_letters, "dead letter"));
    }
    if erased.undelivered > 0 {
        let _ = write!(text, ", {} of them not delivered yet", erased.undelivered);
    }
    text
}
