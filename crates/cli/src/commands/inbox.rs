//! `postroom inbox`: which consumer accepted which event.

use postroom_core::view::InboxRow;

use crate::app::App;
use crate::args::{StoreArg, help};
use crate::exit::{Exit, Outcome};
use crate::output::Table;
use crate::{suggest, when};

/// How many acceptances are looked through for a name that was meant.
const LOOK_BACK: usize = 1000;

/// Look at what consumers have accepted
#[derive(Debug, clap::Subcommand)]
pub(crate) enum InboxCommand {
    /// List acceptances, newest first
    #[command(after_help = help!(store: "postroom inbox ls", "postroom inbox ls --consumer mailer -o json"))]
    Ls {
        /// Consumer
        #[arg(long, value_name = "NAME")]
        consumer: Option<String>,
        /// Most acceptances
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Show who accepted an event
    #[command(after_help = help!(store: "postroom inbox show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
    Show {
        /// The event's id
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        store: StoreArg,
    },
}

pub(crate) async fn run(app: &App, command: InboxCommand) -> Outcome {
    let config = app.config()?;
    let rows = match &command {
        InboxCommand::Ls { consumer, limit, store } => {
            let desk = app.open(&config, store).await?.desk();
            let rows = desk.inbox(consumer.as_deref(), None, *limit).await?;
            if let (Some(consumer), true) = (consumer, rows.is_empty()) {
                let mut known: Vec<String> =
                    desk.inbox(None, None, LOOK_BACK).await?.into_iter().map(|row| row.consumer).collect();
                known.sort();
                known.dedup();
                let otherwise = "list what was accepted: `postroom inbox ls`";
                return Err(suggest::unknown("consumer", consumer, &known, otherwise));
            }
            rows
        }
        InboxCommand::Show { id, store } => {
            let desk = app.open(&config, store).await?.desk();
            let rows = desk.inbox(None, Some(id), LOOK_BACK).await?;
            if rows.is_empty() {
                let known: Vec<String> =
                    desk.inbox(None, None, LOOK_BACK).await?.into_iter().map(|row| row.id).collect();
                let otherwise = format!("nobody accepted it; see where it is: `postroom event show {id}`");
                return Err(suggest::unknown("accepted event", id, &known, &otherwise));
            }
            rows
        }
    };
    app.global.output.list(&rows, || table(&rows))?;
    Ok(Exit::Done)
}

fn table(rows: &[InboxRow]) -> Table {
    let mut table = Table::new(&["accepted", "consumer", "id"], &[]);
    for row in rows {
        table.row([when::seconds(row.accepted_at), row.consumer.clone(), row.id.clone()]);
    }
    table
}
