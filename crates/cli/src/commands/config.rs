//! `postroom config`: write a commented file, find mistakes, show what is in force, describe it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use postroom_core::Level;
use postroom_server::config;
use postroom_server::preflight;
use postroom_server::relay::no_route;
use serde_json::json;

use crate::app::App;
use crate::commands::finding;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::output::{Table, count, note, print, print_lines};

/// Write, check and show the configuration
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a commented configuration to ./postroom.toml, or to --config FILE
    #[command(after_help = help!(plain: "postroom config init", "postroom config init --config /etc/postroom/config.toml"))]
    Init,
    /// Check the configuration and report every error
    #[command(after_help = help!(online: "postroom config check", "postroom config check --online"))]
    Check {
        /// Connect to every store and destination, and check that everything they need exists; nothing is sent
        #[arg(long)]
        online: bool,
    },
    /// Show the values in force, without passwords
    #[command(after_help = help!(plain: "postroom config show --origin", "postroom config show -o json"))]
    Show {
        /// Show the origin of each value
        #[arg(long)]
        origin: bool,
    },
    /// Print the JSON Schema of the configuration file, for editors and validators
    #[command(after_help = help!(plain: "postroom config schema > postroom.schema.json"))]
    Schema,
}

pub(crate) async fn run(app: &App, command: &ConfigCommand) -> Outcome {
    match command {
        ConfigCommand::Init => init(app),
        ConfigCommand::Check { online } => check(app, *online).await,
        ConfigCommand::Show { origin } => show(app, *origin),
        ConfigCommand::Schema => {
            print(&serde_json::to_string_pretty(&config::schema()).map_err(std::io::Error::from)?)?;
            Ok(Exit::Done)
        }
    }
}

fn init(app: &App) -> Outcome {
    let path = app.global.config.clone().unwrap_or_else(|| PathBuf::from("postroom.toml"));
    let text = config::init();
    if app.global.dry_run {
        note(&format!("would write {}:", path.display()))?;
        print(text.trim_end())?;
        return Ok(Exit::Done);
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{} already exists; the file was not changed", path.display());
            return Err(Failed::new(Exit::Refused, message, "remove it first, or name another file with --config"));
        }
        Err(e) => {
            let message = format!("cannot write {}: {e}", path.display());
            return Err(Failed::new(Exit::Usage, message, "name a file you may write with --config"));
        }
    }
    let answer = json!({ "file": path });
    app.global.output.one(&answer, || format!("wrote {}", path.display()))?;
    if app.is_table() {
        note("next: set the url of a store in this file, then run `postroom store migrate up`")?;
    }
    Ok(Exit::Done)
}

async fn check(app: &App, online: bool) -> Outcome {
    let config = app.config_with_stores()?;
    if config.routes.is_empty() {
        return Err(Failed::several(Exit::Usage, vec![no_route(&config).into()]));
    }
    let found = if online { preflight::check(&config).await } else { preflight::warnings(&config) };
    let works = found.iter().all(|found| found.level != Level::Problem);
    let stores: Vec<&str> = config.stores.iter().map(|s| s.name.as_str()).collect();
    let routes: Vec<&str> = config.routes.iter().map(|r| r.definition.name.as_str()).collect();
    let answer = json!({ "ok": works, "file": config.file, "stores": stores, "routes": routes, "findings": found });
    app.global.output.one(&answer, || {
        let file = config.file.as_ref().map_or_else(|| "the configuration".to_owned(), |f| f.display().to_string());
        let (stores, routes) = (count(stores.len() as u64, "store"), count(routes.len() as u64, "route"));
        let well = if works { "is fine" } else { "has no mistakes, but not all of it would work" };
        let file = format!("{file} {well}: {stores}, {routes}");
        found.iter().fold(file, |text, found| format!("{text}\n{}", finding::line(found)))
    })?;
    Ok(if works { Exit::Done } else { Exit::CheckFailed })
}

fn show(app: &App, origin: bool) -> Outcome {
    let config = app.config()?;
    let settings = config.show();
    if app.is_table() && !origin {
        print_lines(settings.iter().map(|setting| Ok(format!("{} = {}", setting.key, setting.value))))?;
        return Ok(Exit::Done);
    }
    app.global.output.list(settings, || {
        let mut table = Table::new(&["key", "value", "origin"], &[]);
        for setting in settings {
            table.row([setting.key.clone(), setting.value.clone(), setting.origin.to_string()]);
        }
        table
    })?;
    Ok(Exit::Done)
}
