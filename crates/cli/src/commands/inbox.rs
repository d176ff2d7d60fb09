//! `postroom inbox`: lists which consumer accepted which event, and forgets an acceptance.

use postroom_admin::Admin;
use postroom_admin::view::InboxRow;
use serde_json::json;

use crate::actor::actor;
use crate::app::App;
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::Narrower::{Shorten, ShortenId};
use crate::output::{Table, note, shell};
use crate::{ids, suggest, when};

/// Number of acceptances searched for the nearest id.
const LOOK_BACK: usize = 1000;

/// List the events that consumers have accepted, and forget an acceptance
#[derive(Debug, clap::Subcommand)]
pub(crate) enum InboxCommand {
    /// List acceptances, largest event ids first
    #[command(after_help = help!(store: "postroom inbox ls", "postroom inbox ls --consumer mailer -o json"))]
    Ls {
        /// Only acceptances of this consumer
        #[arg(long, value_name = "NAME")]
        consumer: Option<String>,
        /// Maximum number of acceptances
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Show the consumers that accepted an event
    #[command(after_help = help!(store: "postroom inbox show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"))]
    Show {
        /// Id of the event, or a prefix of at least 8 characters that no other id has
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Forget that a consumer accepted an event, so that the consumer processes it again on the next delivery
    #[command(after_help = help!(ask:
        "postroom inbox forget 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --consumer mailer --dry-run",
        "postroom inbox forget 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11 --consumer mailer --reason 'mail was lost' --yes",
    ))]
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    /// Id of the event, or a prefix of at least 8 characters that no other id has
    #[arg(value_name = "ID")]
    id: String,
    /// Consumer that is to process the event again
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
            let admin = app.open(&config, store).await?.admin();
            let rows = admin.inbox(consumer.as_deref(), None, None, *limit).await?;
            if let (Some(consumer), true) = (consumer, rows.is_empty()) {
                let mut known: Vec<String> =
                    admin.inbox(None, None, None, LOOK_BACK).await?.into_iter().map(|row| row.consumer).collect();
                known.sort();
                known.dedup();
                let otherwise = "list what was accepted: `postroom inbox ls`";
                return Err(suggest::unknown("consumer", consumer, &known, otherwise));
            }
            rows
        }
        InboxCommand::Show { id, store } => {
            let admin = app.open(&config, store).await?.admin();
            of_event(&*admin, id).await?
        }
        InboxCommand::Forget(args) => return forget(app, args).await,
    };
    app.global.output.list(&rows, || table(&rows))?;
    Ok(Exit::Done)
}

/// Returns the acceptances of the event with this id or prefix of an id, or an error that names the nearest ids.
async fn of_event(admin: &dyn Admin, id: &str) -> Result<Vec<InboxRow>, Failed> {
    let rows = admin.inbox(None, Some(id), None, LOOK_BACK).await?;
    if rows.is_empty() {
        let known = ids::of_inbox(admin, id).await?;
        let otherwise = format!("no consumer accepted the event; see where it is: `postroom event show {}`", shell(id));
        let whole = ids::only("accepted event", id, &known, &otherwise)?;
        return Ok(admin.inbox(None, Some(whole), None, LOOK_BACK).await?);
    }
    Ok(rows)
}

async fn forget(app: &App, args: &ForgetArgs) -> Outcome {
    let consumer = &args.consumer;
    let admin = app.open(&app.config()?, &args.store).await?.admin();
    let rows = of_event(&*admin, &args.id).await?;
    let Some(row) = rows.iter().find(|row| row.consumer == *consumer) else {
        let known: Vec<String> = rows.into_iter().map(|row| row.consumer).collect();
        return Err(suggest::unknown("consumer that accepted it:", consumer, &known, ""));
    };
    let id = &row.id;
    let what = format!("that {consumer} accepted event {id} at {}", when::seconds(row.accepted_at));
    let answer = json!({ "consumer": consumer, "id": id, "forgotten": !app.global.dry_run });
    if app.global.dry_run {
        app.global.output.one(&answer, || format!("would forget {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("this will forget {what}: {consumer} processes the event again on its next delivery"))?;
    confirm(&app.global, &format!("Forget that {consumer} accepted event {id}?"))?;
    let forgotten = admin.forget_inbox(consumer, id, &actor(&args.reason)).await?;
    let answer = json!({ "consumer": consumer, "id": id, "forgotten": forgotten });
    app.global.output.one(&answer, || {
        if forgotten {
            format!("forgot {what}")
        } else {
            format!("{consumer} has no acceptance of event {id} any more")
        }
    })?;
    Ok(Exit::Done)
}

fn table(rows: &[InboxRow]) -> Table {
    let mut table = Table::new(&["accepted", "consumer", "id"], &[]).narrower(&[Shorten("consumer"), ShortenId("id")]);
    for row in rows {
        table.row([when::listed(row.accepted_at), row.consumer.clone(), row.id.clone()]);
    }
    table
}
