//! `postroom audit`: lists operator actions.

use postroom_admin::view::AuditRow;

use crate::app::App;
use crate::exit::{Exit, Outcome};
use crate::options::{StoreArg, help};
use crate::output::Narrower::{Drop, Shorten};
use crate::output::{Table, dash};
use crate::when;

/// List operator actions, newest first: who, what, when and why
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store: "postroom audit", "postroom audit --limit 200 -o json"))]
pub(crate) struct AuditArgs {
    /// Maximum number of actions
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &AuditArgs) -> Outcome {
    let admin = app.open(&app.config()?, &args.store).await?.admin();
    let rows = admin.audit(None, args.limit).await?;
    app.global.output.list(&rows, || table(&rows))?;
    Ok(Exit::Done)
}

fn table(rows: &[AuditRow]) -> Table {
    let mut table = Table::new(&["at", "actor", "action", "subject", "count", "reason"], &[4]).narrower(&[
        Shorten("subject"),
        Shorten("reason"),
        Drop("count"),
        Shorten("actor"),
    ]);
    for row in rows {
        table.row([
            when::listed(row.at),
            row.actor.clone(),
            row.action.clone(),
            row.subject.clone(),
            row.count.to_string(),
            dash(row.reason.as_ref()),
        ]);
    }
    table
}
