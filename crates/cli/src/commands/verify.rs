//! `postroom verify`: counts events to prove that none was lost.

use std::collections::BTreeMap;

use postroom_admin::view::VerifyRow;
use postroom_server::config::{Config, StoreConfig};

use crate::app::{self, App};
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{StoreArg, help};
use crate::output::{Table, count, grouped, note, print};
use crate::progress::during;

/// Prove by counting, per route and lane, that no event was lost
///
/// The first line is the verdict; then every route has a line. No event is missing if in each lane
/// rows = base + seen, seen = delivered + filtered + parked + unsettled, and parked = recovered + discarded + open.
///
/// Columns: events or rows, events in the log up to the position of the route, and pruned ones; base, those from before the
/// start of the route; seen, those that the route has read; delivered, those delivered at once; filtered, those that the
/// route does not match; parked, those that had to wait: they failed, are delayed, or stand behind a failed event of their
/// key; unsettled, those that are being delivered; recovered, parked ones that were delivered later; discarded, parked ones
/// that an operator discarded; open, parked ones that still wait or are dead letters.
#[derive(Debug, clap::Args)]
#[command(after_help = help!(check: "postroom verify", "postroom verify --lanes", "postroom verify -o json"))]
pub(crate) struct VerifyArgs {
    /// Name of the store [default: all stores]
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
    /// Print a line per lane instead of a line per route
    #[arg(long)]
    lanes: bool,
}

pub(crate) async fn run(app: &App, args: &VerifyArgs) -> Outcome {
    let config = app.config()?;
    let store = StoreArg { store: args.store.clone() };
    let stores: Vec<&StoreConfig> = match (&store.store, config.stores.as_slice()) {
        (None, [_, ..]) => config.stores.iter().collect(),
        _ => vec![app::meant(&config, &store)?],
    };
    run_on(app, &config, &stores, args.lanes).await
}

async fn run_on(app: &App, config: &Config, stores: &[&StoreConfig], lanes: bool) -> Outcome {
    let (mut rows, mut unanswered) = (Vec::new(), Vec::new());
    for store in stores {
        match during(&format!("counting the events of store {}", store.name), Box::pin(counted(config, store))).await {
            Ok(found) => rows.extend(found),
            Err(failed) => unanswered.push((&store.name, failed)),
        }
    }
    if unanswered.len() == stores.len()
        && let Some((_, failed)) = unanswered.pop()
    {
        return Err(failed);
    }
    if app.is_table() {
        let table = if lanes { table_of_lanes(&rows) } else { table_of_routes(&rows) };
        let partly = if unanswered.is_empty() { "" } else { "; not every store could be counted" };
        print(&format!("{}{partly}\n{}", verdict(&rows), table.render()))?;
    } else {
        app.global.output.list(&rows, || table_of_lanes(&rows))?;
    }
    for (name, failed) in &unanswered {
        let why = failed.problems.first().map(|p| p.message.as_str()).unwrap_or_default();
        note(&format!("store {name} could not be counted: {why}"))?;
    }
    if rows.iter().any(|row| !row.differences.is_empty()) {
        return Ok(Exit::CheckFailed);
    }
    Ok(if unanswered.is_empty() { Exit::Done } else { Exit::Partly })
}

/// Rows of the lanes of one route.
type OfRoute<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a VerifyRow>>;

fn by_route(rows: &[VerifyRow]) -> OfRoute<'_> {
    let mut routes = OfRoute::new();
    for row in rows {
        routes.entry((row.store.as_str(), row.route.as_str())).or_default().push(row);
    }
    routes
}

/// Says in one line whether events are missing.
fn verdict(rows: &[VerifyRow]) -> String {
    let routes = by_route(rows);
    let differ = |rows: &[&VerifyRow]| rows.iter().any(|row| !row.differences.is_empty());
    let wrong: Vec<&str> = routes.iter().filter(|(_, rows)| differ(rows)).map(|((_, route), _)| *route).collect();
    if !wrong.is_empty() {
        let lanes = rows.iter().filter(|row| !row.differences.is_empty()).count();
        let of = count(rows.len() as u64, "lane");
        return format!("events may be missing: the counts of {} differ, in {lanes} of {of}", wrong.join(", "));
    }
    // Every route of a store reads the same log; the one that is furthest has read most of it.
    let mut events: BTreeMap<&str, u64> = BTreeMap::new();
    for ((store, _), rows) in &routes {
        let most = events.entry(store).or_default();
        *most = (*most).max(rows.iter().map(|row| row.rows).sum());
    }
    let events: u64 = events.values().sum();
    let plural = if events == 1 { "" } else { "s" };
    format!("nothing is missing: {}, {} event{plural}", count(routes.len() as u64, "route"), grouped(events))
}

async fn counted(config: &Config, store: &StoreConfig) -> Result<Vec<VerifyRow>, Failed> {
    Ok(app::open(config, store).await?.admin().verify().await?)
}

fn table_of_routes(rows: &[VerifyRow]) -> Table {
    let columns = ["route", "events", "delivered", "filtered", "parked", "unsettled", "open", "differences"];
    let mut table = Table::new(&columns, &[1, 2, 3, 4, 5, 6]);
    let several = has_several_stores(rows);
    for ((store, route), rows) in by_route(rows) {
        let sum = |of: fn(&VerifyRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>().to_string();
        table.row([
            if several { format!("{store}/{route}") } else { route.to_owned() },
            sum(|row| row.rows),
            sum(|row| row.counts.delivered),
            sum(|row| row.counts.filtered),
            sum(|row| row.counts.parked),
            sum(|row| row.unsettled),
            sum(|row| row.open),
            differences(&rows),
        ]);
    }
    table
}

/// Renders the differences of a route; where it has several lanes, with their numbers.
fn differences(rows: &[&VerifyRow]) -> String {
    let differ = rows.iter().filter(|row| !row.differences.is_empty());
    let texts: Vec<String> = differ
        .map(|row| match rows {
            [_] => row.differences.join("; "),
            _ => format!("lane {}: {}", row.lane, row.differences.join("; ")),
        })
        .collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }
}

fn has_several_stores(rows: &[VerifyRow]) -> bool {
    rows.windows(2).any(|two| two[0].store != two[1].store)
}

fn table_of_lanes(rows: &[VerifyRow]) -> Table {
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
    let several = has_several_stores(rows);
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
