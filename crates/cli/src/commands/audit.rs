//! `postroom audit`: did we lose anything? The answer by counting, and what operators did.

use postroom_core::view::{ActionRow, AuditRow};
use postroom_server::config::{Config, StoreConfig};

use crate::app::{self, App};
use crate::args::{StoreArg, help};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Table, dash, note};
use crate::when;

/// Prove by counting that no event was lost, per route and lane
#[derive(Debug, clap::Args)]
#[command(after_help = help!(check: "postroom audit", "postroom audit -o json", "postroom audit --actions"))]
pub(crate) struct AuditArgs {
    /// List what operators did instead, newest first
    #[arg(long)]
    actions: bool,
    /// Most actions
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Name of the store [default: every one]
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
}

pub(crate) async fn run(app: &App, args: &AuditArgs) -> Outcome {
    let config = app.config()?;
    let store = StoreArg { store: args.store.clone() };
    if args.actions {
        let desk = app.open(&config, &store).await?.desk();
        let rows = desk.actions(None, args.limit).await?;
        app.global.output.list(&rows, || actions_table(&rows))?;
        return Ok(Exit::Done);
    }
    let stores: Vec<&StoreConfig> = match (&store.store, config.stores.as_slice()) {
        (None, [_, ..]) => config.stores.iter().collect(),
        _ => vec![app::meant(&config, &store)?],
    };
    count(app, &config, &stores).await
}

async fn count(app: &App, config: &Config, stores: &[&StoreConfig]) -> Outcome {
    let (mut rows, mut unanswered) = (Vec::new(), Vec::new());
    for store in stores {
        match counted(config, store).await {
            Ok(found) => rows.extend(found),
            Err(failed) => unanswered.push((&store.name, failed)),
        }
    }
    if unanswered.len() == stores.len()
        && let Some((_, failed)) = unanswered.pop()
    {
        return Err(failed);
    }
    app.global.output.list(&rows, || table(&rows))?;
    for (name, failed) in &unanswered {
        let why = failed.problems.first().map(|p| p.message.as_str()).unwrap_or_default();
        note(&format!("store {name} could not be counted: {why}"))?;
    }
    let different = rows.iter().filter(|row| !row.differences.is_empty()).count();
    if different > 0 {
        note(&format!("the counts differ in {different} of {} lanes: events may be missing", rows.len()))?;
        return Ok(Exit::CheckFailed);
    }
    if !unanswered.is_empty() {
        return Ok(Exit::Partly);
    }
    if app.is_table() {
        note("nothing is missing: every event is delivered, filtered, parked or still to come")?;
    }
    Ok(Exit::Done)
}

async fn counted(config: &Config, store: &StoreConfig) -> Result<Vec<AuditRow>, Failed> {
    Ok(app::open(config, store).await?.desk().audit().await?)
}

fn table(rows: &[AuditRow]) -> Table {
    let columns = [
        "route",
        "lane",
        "rows",
        "base",
        "seen",
        "delivered",
        "filtered",
        "parked",
        "unsettled",
        "recovered",
        "discarded",
        "open",
        "differences",
    ];
    let mut table = Table::new(&columns, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let several = rows.windows(2).any(|w| w[0].store != w[1].store);
    for row in rows {
        let c = &row.counts;
        let differences = if row.differences.is_empty() { "none".to_owned() } else { row.differences.join("; ") };
        table.row([
            if several { format!("{}/{}", row.store, row.route) } else { row.route.clone() },
            row.lane.to_string(),
            row.rows.to_string(),
            c.base.to_string(),
            c.seen.to_string(),
            c.delivered.to_string(),
            c.filtered.to_string(),
            c.parked.to_string(),
            row.unsettled.to_string(),
            c.recovered.to_string(),
            c.discarded.to_string(),
            row.open.to_string(),
            differences,
        ]);
    }
    table
}

fn actions_table(rows: &[ActionRow]) -> Table {
    let mut table = Table::new(&["at", "actor", "action", "subject", "count", "reason"], &[4]);
    for row in rows {
        table.row([
            when::seconds(row.at),
            row.actor.clone(),
            row.action.clone(),
            row.subject.clone(),
            row.count.to_string(),
            dash(row.reason.as_ref()),
        ]);
    }
    table
}
