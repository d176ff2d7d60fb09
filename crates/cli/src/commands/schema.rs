//! `postroom schema`: which contracts there are, adding one, and whether a change of one breaks anybody.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use postroom_contracts::{Difference, Schema, compare, file_name};
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome, Problem};
use crate::options::help;
use crate::output::{Table, count, note};

/// List, add and compare the schemas of event payloads
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SchemaCommand {
    /// List the schemas in force
    #[command(after_help = help!(plain: "postroom schema ls", "postroom schema ls -o json"))]
    Ls,
    /// Add a schema to `contract.folder`; fails if it breaks consumers of the existing one
    #[command(after_help = help!(schema: "postroom schema add order.json --type order.placed", "postroom schema add order-2.json --type order.placed --version 2"))]
    Add {
        /// JSON Schema file, draft-07 or 2020-12
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Event type of the schema
        #[arg(long = "type", value_name = "TYPE")]
        event_type: String,
        /// Version of the event type [default: all versions without a schema of their own]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        version: Option<i32>,
    },
    /// Check that NEW only adds optional fields to OLD
    #[command(after_help = help!(compare: "postroom schema check schemas/order.placed.json order.json"))]
    Check {
        /// Schema that consumers know
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// Schema that is to replace it
        #[arg(value_name = "NEW")]
        new: PathBuf,
    },
}

pub(crate) fn run(app: &App, command: &SchemaCommand) -> Outcome {
    match command {
        SchemaCommand::Ls => list(app),
        SchemaCommand::Add { file, event_type, version } => add(app, file, event_type, *version),
        SchemaCommand::Check { old, new } => check(app, old, new),
    }
}

fn list(app: &App) -> Outcome {
    let config = app.config()?;
    let rows = config.contract.contracts.rows();
    app.global.output.list(&rows, || {
        let mut table = Table::new(&["type", "version", "draft", "applies to", "mode", "from"], &[]);
        for row in &rows {
            let version = row.version.map_or_else(|| "any".to_owned(), |version| version.to_string());
            let [applies_to, mode] =
                [json!(row.applies_to), json!(row.mode)].map(|word| word.as_str().unwrap_or_default().to_owned());
            table.row([row.event_type.clone(), version, row.draft.to_string(), applies_to, mode, row.from.clone()]);
        }
        table
    })?;
    Ok(Exit::Done)
}

fn add(app: &App, file: &Path, event_type: &str, version: Option<i32>) -> Outcome {
    let config = app.config()?;
    let Some(folder) = &config.contract.folder else {
        let hint = "set `folder` in [contract], and create that folder";
        return Err(Failed::new(Exit::Usage, "no folder for schemas is configured", hint));
    };
    let Some(name) = file_name(event_type, version) else {
        let message = format!("the type {event_type:?} cannot be the name of a file");
        return Err(Failed::new(Exit::Usage, message, "write its schema into [contract.schemas] of the configuration"));
    };
    let (text, schema) = read(file)?;
    let target = folder.join(&name);
    for (origin, before) in config.contract.contracts.before(event_type, version) {
        let differences = compare(before, &schema);
        if !differences.is_empty() {
            return Err(refused(origin, &differences));
        }
        // In the configuration itself: a second one would contradict it at the next start.
        if config.contract.contracts.origin(event_type, version) == Some(origin) && !target.exists() {
            let message = format!("the schema of {event_type:?} is defined in {origin}");
            return Err(Failed::new(Exit::Refused, message, "change it there, or remove it there first"));
        }
    }
    let answer = json!({ "type": event_type, "version": version, "draft": schema.draft(), "file": target });
    if app.global.dry_run {
        note(&format!("would write {}; nothing was written", target.display()))?;
        return Ok(Exit::Done);
    }
    write(&target, &text).map_err(|error| {
        let message = format!("cannot write {}: {error}", target.display());
        Failed::new(Exit::Failed, message, "check that the folder is there and may be written")
    })?;
    app.global.output.one(&answer, || format!("wrote {}", target.display()))?;
    if app.is_table() {
        note("next: restart the relays, which read schemas when they start")?;
    }
    Ok(Exit::Done)
}

fn check(app: &App, old: &Path, new: &Path) -> Outcome {
    let ((_, before), (_, after)) = (read(old)?, read(new)?);
    let differences = compare(&before, &after);
    let answer = json!({ "compatible": differences.is_empty(), "differences": differences });
    app.global.output.one(&answer, || {
        if differences.is_empty() {
            return format!("{} only adds optional fields", new.display());
        }
        let head = format!(
            "{} breaks consumers of {} in {}",
            new.display(),
            old.display(),
            count(differences.len() as u64, "place")
        );
        differences.iter().fold(head, |text, difference| format!("{text}\n  {difference}"))
    })?;
    Ok(if differences.is_empty() { Exit::Done } else { Exit::CheckFailed })
}

fn read(file: &Path) -> Result<(String, Schema), Failed> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failed::new(Exit::Usage, format!("cannot read {}: {error}", file.display()), "name a file with a JSON Schema")
    })?;
    match Schema::compile(&text) {
        Ok(schema) => Ok((text, schema)),
        Err(error) => Err(Failed::new(Exit::Usage, format!("{} is not a JSON Schema: {error}", file.display()), "")),
    }
}

fn refused(origin: &str, differences: &[Difference]) -> Failed {
    let hint = "add optional fields only, or introduce a new event type and move consumers to it";
    let mut problems: Vec<Problem> = differences
        .iter()
        .map(|difference| Problem {
            message: format!("the schema breaks consumers of {origin}: {difference}"),
            hint: String::new(),
        })
        .collect();
    if let Some(last) = problems.last_mut() {
        hint.clone_into(&mut last.hint);
    }
    Failed::several(Exit::Refused, problems)
}

/// Writes the file as a whole or not at all, because a relay may be reading the folder.
fn write(target: &Path, text: &str) -> std::io::Result<()> {
    // Hidden, and without the ending, so that nobody takes it for a schema.
    let draft = target.with_file_name(format!(".schema-{}", std::process::id()));
    let written = fs::File::create(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&draft, target));
    if moved.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&draft);
    }
    moved
}
