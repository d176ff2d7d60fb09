//! `postroom inbox`: which consumer accepted which event; and letting one do an event's work once more.

use postroom_core::Desk;
use postroom_core::view::InboxRow;
use serde_json::json;

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Table, note};
use crate::{suggest, when};

/// How many acceptances are looked through for a name that was meant.
const LOOK_BACK: usize = 1000;

/// Look at what consumers have accepted, and forget an acceptance
#[derive(Debug, clap::Subcommand)]
pub(crate) enum InboxCommand {
    /// List acceptances, the greatest event ids first
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
    /// Forget that a consumer accepted an event: when it comes again, its work is done once more
    #[command(after_help = help!(ask:
        "postroom inbox forget 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --consumer mailer --dry-run",
        "postroom inbox forget 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --consumer mailer --reason 'mail was lost' --yes",
    ))]
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    /// The event's id
    #[arg(value_name = "ID")]
    id: String,
    /// The consumer that is to do its work once more
    #[arg(long, value_name = "NAME")]
    consumer: String,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, command: InboxCommand) -> Outcome {
    let config = app.config()?;
    let rows = match &command {
        InboxCommand::Ls { consumer, limit, store } => {
            let desk = app.open(&config, store).await?.desk();
            let rows = desk.inbox(consumer.as_deref(), None, None, *limit).await?;
            if let (Some(consumer), true) = (consumer, rows.is_empty()) {
                let mut known: Vec<String> =
                    desk.inbox(None, None, None, LOOK_BACK).await?.into_iter().map(|row| row.consumer).collect();
                known.sort();
                known.dedup();
                let otherwise = "list what was accepted: `postroom inbox ls`";
                return Err(suggest::unknown("consumer", consumer, &known, otherwise));
            }
            rows
        }
        InboxCommand::Show { id, store } => {
            let desk = app.open(&config, store).await?.desk();
            of_event(&*desk, id).await?
        }
        InboxCommand::Forget(args) => return forget(app, args).await,
    };
    app.global.output.list(&rows, || table(&rows))?;
    Ok(Exit::Done)
}

/// Who accepted an event, or an error that names the nearest.
async fn of_event(desk: &dyn Desk, id: &str) -> Result<Vec<InboxRow>, Failed> {
    let rows = desk.inbox(None, Some(id), None, LOOK_BACK).await?;
    if rows.is_empty() {
        let known: Vec<String> = desk.inbox(None, None, None, LOOK_BACK).await?.into_iter().map(|row| row.id).collect();
        let otherwise = format!("nobody accepted it; see where it is: `postroom event show {id}`");
        return Err(suggest::unknown("accepted event", id, &known, &otherwise));
    }
    Ok(rows)
}

async fn forget(app: &App, args: &ForgetArgs) -> Outcome {
    let ForgetArgs { id, consumer, .. } = args;
    let desk = app.open(&app.config()?, &args.store).await?.desk();
    let rows = of_event(&*desk, id).await?;
    let Some(row) = rows.iter().find(|row| row.consumer == *consumer) else {
        let known: Vec<String> = rows.into_iter().map(|row| row.consumer).collect();
        return Err(suggest::unknown("consumer that accepted it:", consumer, &known, ""));
    };
    let what = format!("that {consumer} accepted event {id} at {}", when::seconds(row.accepted_at));
    let answer = json!({ "consumer": consumer, "id": id, "forgotten": !app.global.dry_run });
    if app.global.dry_run {
        app.global.output.one(&answer, || format!("would forget {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("this will forget {what}: when it comes again, its work is done once more"))?;
    confirm(&app.global, &format!("Forget that {consumer} accepted event {id}?"))?;
    let forgotten = desk.forget_inbox(consumer, id, &actor(&args.reason)).await?;
    let answer = json!({ "consumer": consumer, "id": id, "forgotten": forgotten });
    app.global.output.one(&answer, || {
        if forgotten { format!("forgot {what}") } else { format!("{consumer} has not accepted event {id} any more") }
    })?;
    Ok(Exit::Done)
}

fn table(rows: &[InboxRow]) -> Table {
    let mut table = Table::new(&["accepted", "consumer", "id"], &[]);
    for row in rows {
        table.row([when::seconds(row.accepted_at), row.consumer.clone(), row.id.clone()]);
    }
    table
}
