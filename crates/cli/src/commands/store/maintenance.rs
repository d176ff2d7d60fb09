//! `postroom store roles`, `stats`, `repair` and `accept-identity`: maintenance of a store on a server. These commands also
//! work while Postroom refuses to open the store, because they fix the cause.

use std::fmt::Write as _;
use std::sync::Arc;

use postroom_core::Maintenance;
use postroom_core::view::{Accepted, Recovered, Repaired, StoreStats};
use postroom_server::stores;
use serde_json::json;

use super::MaintenanceArgs;
use crate::actor::actor;
use crate::app::{self, App};
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::StoreArg;
use crate::output::{Table, count, note, print};
use crate::when;

async fn open(app: &App, store: &StoreArg) -> Result<(String, Arc<dyn Maintenance>), Failed> {
    let config = app.config()?;
    let store = app::meant(&config, store)?;
    Ok((store.name.clone(), stores::open_maintenance(store).await?))
}

pub(super) async fn roles(app: &App, store: &StoreArg) -> Outcome {
    let (name, maintenance) = open(app, store).await?;
    let sql = maintenance.roles();
    if app.is_table() {
        print(sql.trim_end())?;
    } else {
        app.global.output.one(&json!({ "store": name, "sql": sql }), String::new)?;
    }
    Ok(Exit::Done)
}

pub(super) async fn stats(app: &App, store: &StoreArg) -> Outcome {
    let (_, maintenance) = open(app, store).await?;
    let stats = maintenance.stats().await?;
    app.global.output.one(&stats, || render(&stats))?;
    Ok(Exit::Done)
}

fn render(stats: &StoreStats) -> String {
    let mut partitions = Table::new(&["partition", "events", "bytes", "oldest", "newest", ""], &[0, 1, 2]);
    for partition in &stats.partitions {
        let about = if partition.rows_estimated && partition.rows > 0 { "~" } else { "" };
        let time = |time: Option<_>| time.map(when::listed).unwrap_or_default();
        partitions.row([
            partition.partition.to_string(),
            format!("{about}{}", partition.rows),
            partition.bytes.to_string(),
            time(partition.oldest),
            time(partition.newest),
            (if partition.current { "current" } else { "" }).to_owned(),
        ]);
    }
    let mut tables = Table::new(&["table", "rows", "dead", "bytes"], &[1, 2, 3]);
    for table in &stats.tables {
        let numbers = [table.rows, table.dead_rows, table.bytes].map(|n| n.to_string());
        let [rows, dead, bytes] = numbers;
        tables.row([table.table.clone(), rows, dead, bytes]);
    }
    let mut text = format!("{}\n\n{}\n\n", partitions.render(), tables.render());
    let _ = write!(
        text,
        "last number {}, {} truncated, {}",
        stats.last_number,
        count(stats.truncated, "event"),
        count(stats.checkpoints, "checkpoint")
    );
    match &stats.horizon {
        None => text.push_str("\nno session holds an old snapshot: dead rows can be removed"),
        Some(h) => {
            let _ = write!(
                text,
                "\n{} {} ({}) looks back {}",
                h.kind,
                h.name,
                h.detail,
                count(h.age_transactions, "transaction")
            );
            if let Some(since) = h.since {
                let _ = write!(text, ", since {}", when::seconds(since));
            }
        }
    }
    text
}

pub(super) async fn repair(app: &App, args: &MaintenanceArgs) -> Outcome {
    let (name, maintenance) = open(app, &args.store).await?;
    let actor = actor(&args.reason);
    let preview = maintenance.repair(true, &actor).await?;
    if app.global.dry_run || !preview.is_needed() {
        app.global.output.one(&preview, || {
            if preview.is_needed() {
                return format!("would repair store {name}: {}", repairs(&preview));
            }
            format!(
                "store {name} is at number {}, and no route has passed an event: nothing to repair",
                preview.last_number
            )
        })?;
        return Ok(Exit::Done);
    }
    note(&format!("this will repair store {name}: {}", repairs(&preview)))?;
    if preview.repaired {
        note("appends wait while the sequence is set")?;
    }
    if preview.passed.again > 0 {
        note(
            "events come twice where receipts cannot tell which ones were passed: consumers recognise them by their id",
        )?;
    }
    confirm(&app.global, "Repair it?")?;
    let done = maintenance.repair(false, &actor).await?;
    app.global.output.one(&done, || {
        if done.is_needed() {
            return format!("repaired store {name}: {}", repairs(&done));
        }
        format!("store {name} is at number {} by now: nothing was left to repair", done.last_number)
    })?;
    Ok(Exit::Done)
}

/// Describes the repairs.
fn repairs(repaired: &Repaired) -> String {
    let mut parts = Vec::new();
    if repaired.repaired {
        parts.push(format!("the sequence goes from {} to {}", repaired.last_number, repaired.greatest));
    }
    if repaired.identities > 0 {
        parts.push(format!("{} set right", count(repaired.identities, "identity sequence")));
    }
    parts.extend(passed(&repaired.passed));
    parts.join(", ")
}

/// Describes the recovery of events that routes have passed.
fn passed(passed: &Recovered) -> Vec<String> {
    let Recovered { renumbered, parked, again, unwanted, missing } = *passed;
    let parts = [
        (renumbered, "event", "appended while the sequence was behind numbered anew"),
        (parked, "delivery", "of passed events made due"),
        (again, "delivery", "made due that may come twice"),
        (unwanted, "passed event", "that no route wants counted"),
        (missing, "event", "missing from the log counted no longer"),
    ];
    parts.into_iter().filter(|(n, ..)| *n > 0).map(|(n, what, done)| format!("{} {done}", count(n, what))).collect()
}

pub(super) async fn accept_identity(app: &App, args: &MaintenanceArgs) -> Outcome {
    let (name, maintenance) = open(app, &args.store).await?;
    let actor = actor(&args.reason);
    let preview = maintenance.accept_identity(true, &actor).await?;
    if app.global.dry_run || !preview.accepted {
        app.global.output.one(&preview, || {
            if preview.accepted {
                return format!("would accept {}", describe(&preview));
            }
            format!("store {name} is on the server it was made for ({}): nothing to accept", preview.to)
        })?;
        return Ok(Exit::Done);
    }
    note(&format!("this will accept {}", describe(&preview)))?;
    if preview.other_cluster {
        note(
            "if the original still runs, both send the same events: accept only on the server that is to keep the store",
        )?;
    }
    confirm(&app.global, &format!("Accept this server as the home of store {name}?"))?;
    let done = maintenance.accept_identity(false, &actor).await?;
    app.global.output.one(&done, || format!("accepted {}", describe(&done)))?;
    Ok(Exit::Done)
}

fn describe(accepted: &Accepted) -> String {
    let moved = format!("{} in place of {} for store {}", accepted.to, accepted.from, accepted.store);
    if !accepted.other_cluster {
        return format!("{moved}: the same cluster on another timeline or at another address, as after a failover");
    }
    let mut text = format!(
        "{moved}: {} taken over, {} recovered, {} cleared of old transaction ids",
        count(accepted.lanes, "lane"),
        count(accepted.recovered, "delivery"),
        count(accepted.cleared, "event")
    );
    if accepted.sequence.repaired {
        let _ = write!(text, ", sequence set from {} to {}", accepted.sequence.last_number, accepted.sequence.greatest);
    }
    for part in passed(&accepted.passed) {
        let _ = write!(text, ", {part}");
    }
    text
}
