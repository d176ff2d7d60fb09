//! `postroom store migrate`: the store's tables. `up` also registers the configured routes, so that nothing appended
//! from then on passes them by.

use std::fmt::Write as _;

use postroom_core::SchemaStep;
use postroom_server::config::{Config, StoreConfig};
use postroom_server::stores::{self, IfMissing};
use postroom_server::{renamed, status};
use serde_json::json;

use crate::app::{self, App};
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{StoreArg, help};
use crate::output::{Table, count, note, print};
use crate::progress::during;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum MigrateCommand {
    /// Migrate the tables to the schema of this version, and register the configured routes
    #[command(after_help = help!(store: "postroom store migrate up", "postroom store migrate up --store main --dry-run"))]
    Up(StoreArg),
    /// Revert the latest migration; all data in its tables is lost
    #[command(after_help = help!(ask: "postroom store migrate down --dry-run", "postroom store migrate down --yes"))]
    Down(StoreArg),
    /// Show the schema version of the store and the version that is needed
    #[command(after_help = help!(store: "postroom store migrate status", "postroom store migrate status -o json"))]
    Status(StoreArg),
    /// Print the SQL that `up` would run, for manual use
    #[command(after_help = help!(store: "postroom store migrate plan > plan.sql"))]
    Plan(StoreArg),
}

pub(super) async fn run(app: &App, command: MigrateCommand) -> Outcome {
    match command {
        MigrateCommand::Up(store) => up(app, &store).await,
        MigrateCommand::Down(store) => down(app, &store).await,
        MigrateCommand::Status(store) => status(app, &store).await,
        MigrateCommand::Plan(store) => plan(app, &store).await,
    }
}

async fn up(app: &App, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let store = app::meant(&config, store)?;
    let name = &store.name;
    let missing = if app.global.dry_run { IfMissing::Fail } else { IfMissing::Create };
    let schema = stores::open_schema(store, config.limits, missing).await?;
    if app.global.dry_run {
        let missing: Vec<SchemaStep> = schema.status().await?.steps.into_iter().filter(|s| !s.applied).collect();
        app.global.output.list(&missing, || steps_table(&missing))?;
        note(&format!("would apply {}; nothing was changed", count(missing.len() as u64, "step")))?;
        return Ok(Exit::Done);
    }
    let applied = during(&format!("migrating store {name}"), schema.up()).await?;
    let definitions = status::routes_of(&config, name);
    let admin = app::open(&config, store).await?.admin();
    let passed_over = renamed::check(store, &*admin, &config.routes_of(name), &[]).await?;
    let new = admin.register(&definitions).await?;
    let answer = json!({ "store": name, "applied": applied, "registered": new });
    app.global.output.one(&answer, || {
        let mut text = match applied.last() {
            None => format!("store {name} is up to date"),
            Some(last) => format!("store {name} is at version {}", last.version),
        };
        for step in &applied {
            let _ = write!(text, "\n  applied {} {}", step.version, step.name);
        }
        for route in &new {
            let _ = write!(text, "\n  registered route {route}");
        }
        text
    })?;
    for passed_over in passed_over {
        note(&format!("note: {passed_over}"))?;
    }
    Ok(Exit::Done)
}

async fn down(app: &App, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let store = app::meant(&config, store)?;
    let name = &store.name;
    let schema = stores::open_schema(store, config.limits, IfMissing::Fail).await?;
    let status = schema.status().await?;
    let Some(step) = status.steps.into_iter().rfind(|s| s.applied) else {
        return Err(Failed::new(Exit::Failed, format!("store {name} has no tables to drop"), ""));
    };
    let lost = match step.version {
        1 => format!("; this loses {}", losses(&config, store).await),
        known if known <= status.needs => "; events, positions and dead letters stay".to_owned(),
        _ => String::new(),
    };
    let what = format!("step {} ({}) of store {name}{lost}", step.version, step.name);
    if app.global.dry_run {
        let answer = json!({ "store": name, "undo": [step] });
        app.global.output.one(&answer, || format!("would revert {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("this will revert {what}"))?;
    confirm(&app.global, &format!("Revert step {} of store {name}? All data in its tables is lost.", step.version))?;
    let undone = schema.down().await?;
    let answer = json!({ "store": name, "undone": undone });
    app.global.output.one(&answer, || format!("reverted step {} of store {name}", step.version))?;
    Ok(Exit::Done)
}

/// Describes the data that would be lost; tables of an older or newer schema cannot be counted.
async fn losses(config: &Config, store: &StoreConfig) -> String {
    let everything = || "every event, every position and every dead letter".to_owned();
    let Ok(opened) = app::open(config, store).await else { return everything() };
    let (Ok(store), Ok(routes)) = (opened.admin().store().await, opened.admin().routes().await) else {
        return everything();
    };
    let dead: u64 = routes.iter().map(|r| r.status.dead).sum();
    format!(
        "{}, {} with their positions, {}",
        count(store.events.unwrap_or(0), "event"),
        count(routes.len() as u64, "route"),
        count(dead, "dead letter")
    )
}

async fn status(app: &App, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let store = app::meant(&config, store)?;
    let name = &store.name;
    let status = stores::open_schema(store, config.limits, IfMissing::Fail).await?.status().await?;
    app.global.output.one(&status, || {
        let word = match status.version.cmp(&status.needs) {
            std::cmp::Ordering::Less => "run `postroom store migrate up`",
            std::cmp::Ordering::Equal => "up to date",
            std::cmp::Ordering::Greater => "newer than this program; use a newer postroom",
        };
        let head =
            format!("store {name} is at version {}, this program needs {}: {word}", status.version, status.needs);
        format!("{head}\n{}", steps_table(&status.steps).render())
    })?;
    Ok(Exit::Done)
}

async fn plan(app: &App, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let store = app::meant(&config, store)?;
    let name = &store.name;
    let sql = stores::plan(store, config.limits).await?;
    if app.is_table() && sql.is_empty() {
        note(&format!("store {name} is up to date: there is nothing to run"))?;
    } else if app.is_table() {
        print(sql.trim_end())?;
    } else {
        app.global.output.one(&json!({ "store": name, "sql": sql }), String::new)?;
    }
    Ok(Exit::Done)
}

fn steps_table(steps: &[SchemaStep]) -> Table {
    let mut table = Table::new(&["version", "name", "applied"], &[0]);
    for step in steps {
        let applied = if step.applied { "yes" } else { "no" };
        table.row([step.version.to_string(), step.name.clone(), applied.to_owned()]);
    }
    table
}
