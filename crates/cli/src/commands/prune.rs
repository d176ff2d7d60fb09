//! `postroom prune`: applies retention now, for stores where no relay does it.

use postroom_core::view::Pruned;

use crate::app::App;
use crate::args::{StoreArg, help};
use crate::confirm::confirm;
use crate::exit::{Exit, Outcome};
use crate::output::{count, note};

/// Remove what retention says is old: settled events, tries, acceptances
#[derive(Debug, clap::Args)]
#[command(after_help = help!(ask: "postroom prune --dry-run", "postroom prune --yes"))]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &PruneArgs) -> Outcome {
    let config = app.config()?;
    let desk = app.open(&config, &args.store).await?.desk();
    let preview = desk.prune(&config.retention, true).await?;
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
    let done = desk.prune(&config.retention, false).await?;
    app.global.output.one(&done, || format!("removed {}", describe(&done)))?;
    Ok(Exit::Done)
}

fn describe(pruned: &Pruned) -> String {
    format!(
        "{}, {}, {}, {}, {}",
        count(pruned.events, "event"),
        count(pruned.attempts, "failed try"),
        count(pruned.inbox, "acceptance"),
        count(pruned.append_keys, "append_once word"),
        count(pruned.receipts, "receipt"),
    )
}
