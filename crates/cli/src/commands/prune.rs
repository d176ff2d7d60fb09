//! `postroom prune`: applies retention now, for stores where no relay does it.

use postroom_core::view::Pruned;

use crate::app::App;
use crate::confirm::confirm;
use crate::exit::{Exit, Outcome};
use crate::options::{StoreArg, help};
use crate::output::{count, note};
use crate::progress::during;

/// Remove settled events, attempts and acceptances that are older than their retention
#[derive(Debug, clap::Args)]
#[command(after_help = help!(ask: "postroom prune --dry-run", "postroom prune --yes"))]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &PruneArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let preview = during("counting what is old enough", admin.prune(&config.retention, true)).await?;
    if app.global.dry_run {
        app.global.output.one(&preview, || format!("would remove {}", describe(&preview)))?;
        return Ok(Exit::Done);
    }
    if preview == Pruned::default() {
        app.global.output.one(&preview, || "nothing is old enough to be removed".to_owned())?;
        return Ok(Exit::Done);
    }
    note(&format!("this will remove {}", describe(&preview)))?;
    confirm(&app.global, &format!("Remove {}?", describe(&preview)))?;
    let done = during("removing what is old enough", admin.prune(&config.retention, false)).await?;
    app.global.output.one(&done, || format!("removed {}", describe(&done)))?;
    Ok(Exit::Done)
}

fn describe(pruned: &Pruned) -> String {
    format!(
        "{}, {}, {}, {}, {}",
        count(pruned.events, "event"),
        count(pruned.attempts, "failed try"),
        count(pruned.inbox, "acceptance"),
        count(pruned.append_keys, "idempotency key"),
        count(pruned.receipts, "receipt"),
    )
}
