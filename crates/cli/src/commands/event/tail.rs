//! `postroom event tail`: prints events as they are appended, until interrupted.

use std::time::Duration;

use postroom_admin::view::EventRow;
use postroom_admin::{Admin, Page, Selection};
use postroom_server::tail;
use tokio::time::sleep;

use crate::app::App;
use crate::commands::which::WhichEvents;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{StoreArg, help};
use crate::output::plain;
use crate::{stop, when};

/// Pause before the next read when there are no new events.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of events of one read.
const BATCH: usize = 500;

/// Print events as they are appended, until interrupted
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom event tail",
    "postroom event tail --type 'order.*' --lines 0 -o jsonl",
    "postroom event tail --follow=false --lines 20",
))]
pub(crate) struct TailArgs {
    #[command(flatten)]
    which: WhichEvents,
    /// Wait for new events
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    follow: bool,
    /// Number of latest events to print first
    #[arg(long, value_name = "N", default_value_t = 10)]
    lines: usize,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &TailArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let which = args.which.selection();
    let stop = stop::on_signal()?;
    // Where to go on is found before the latest are read, so that none falls between.
    let mut after = tail::end(&*admin).await?;
    let mut latest = newest(&*admin, &which, args.lines).await?;
    latest.reverse();
    latest.retain(|row| row.position <= after);
    show(app, &latest)?;
    while args.follow && !stop.is_cancelled() {
        let (rows, next) = tail::news(&*admin, &which, after, BATCH).await?;
        show(app, &rows)?;
        if next == after {
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(PAUSE) => {}
            }
        }
        after = next;
    }
    Ok(Exit::Done)
}

async fn newest(admin: &dyn Admin, which: &Selection, limit: usize) -> Result<Vec<EventRow>, Failed> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    Ok(admin.events(which, Page::Newest { before: None, above: 0, limit }).await?)
}

fn show(app: &App, rows: &[EventRow]) -> Result<(), Failed> {
    for row in rows {
        app.global.output.stream(row, || {
            let key = row.key.as_ref().map(|k| format!("  key {}", plain(k, 72))).unwrap_or_default();
            let tenant = row.tenant.as_ref().map(|t| format!("  tenant {}", plain(t, 72))).unwrap_or_default();
            let kind = plain(&row.event_type, 72);
            format!("{}  {kind}{key}{tenant}  {}", when::clock(row.appended_at), plain(&row.id, 72))
        })?;
    }
    Ok(())
}
