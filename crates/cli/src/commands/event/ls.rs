//! `postroom event ls`: what is in the log, newest first.

use postroom_core::Page;
use postroom_core::view::EventRow;

use crate::app::App;
use crate::args::{StoreArg, help};
use crate::commands::which::WhichEvents;
use crate::exit::{Exit, Outcome};
use crate::output::{Table, dash, note};
use crate::when;

/// List events, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom event ls --type 'order.*' --from 1h",
    "postroom event ls --key order-7 -o json",
    "postroom event ls --before 1200 --limit 100",
))]
pub(crate) struct LsArgs {
    #[command(flatten)]
    which: WhichEvents,
    /// Most events
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Only events before this position: the next page
    #[arg(long, value_name = "POSITION")]
    before: Option<i64>,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &LsArgs) -> Outcome {
    let config = app.config()?;
    let desk = app.open(&config, &args.store).await?.desk();
    let page = Page::Newest { before: args.before, above: 0, limit: args.limit };
    let rows = desk.events(&args.which.selection(), page).await?;
    app.global.output.list(&rows, || table(&rows))?;
    if let Some(last) = rows.last().filter(|_| rows.len() == args.limit && app.is_table()) {
        note(&format!("there may be more: --before {}", last.position))?;
    }
    Ok(Exit::Done)
}

fn table(rows: &[EventRow]) -> Table {
    let mut table = Table::new(&["position", "type", "key", "tenant", "appended", "bytes", "id"], &[0, 5]);
    for row in rows {
        table.row([
            row.position.to_string(),
            row.event_type.clone(),
            dash(row.key.as_ref()),
            dash(row.tenant.as_ref()),
            when::seconds(row.appended_at),
            row.payload_bytes.to_string(),
            row.id.clone(),
        ]);
    }
    table
}
