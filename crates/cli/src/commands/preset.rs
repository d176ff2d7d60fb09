//! `postroom preset`: lists presets, the built-in configurations of known systems.

use postroom_server::config::{PRESETS, Preset};
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Outcome};
use crate::options::help;
use crate::output::Table;
use crate::suggest;

/// List and print presets: built-in configurations of known systems
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PresetCommand {
    /// List presets
    #[command(after_help = help!(plain: "postroom preset ls"))]
    Ls,
    /// Print a preset as a configuration file to copy and change
    #[command(after_help = help!(plain: "postroom preset show m4 > postroom.toml", "postroom preset show m4 --ddl"))]
    Show {
        /// Name of the preset
        name: String,
        /// Print the SQL of the preset's tables and functions instead
        #[arg(long)]
        ddl: bool,
    },
}

pub(crate) fn run(app: &App, command: &PresetCommand) -> Outcome {
    match command {
        PresetCommand::Ls => list(app),
        PresetCommand::Show { name, ddl } => show(app, name, *ddl),
    }
}

fn list(app: &App) -> Outcome {
    let rows: Vec<_> = PRESETS.iter().map(|preset| json!({ "name": preset.name, "about": preset.about() })).collect();
    app.global.output.list(&rows, || {
        let mut table = Table::new(&["preset", "what it takes over"], &[]);
        for preset in PRESETS {
            table.row([preset.name.to_owned(), preset.about().to_owned()]);
        }
        table
    })?;
    Ok(Exit::Done)
}

fn show(app: &App, name: &str, ddl: bool) -> Outcome {
    let Some(preset) = Preset::named(name) else {
        let known: Vec<String> = PRESETS.iter().map(|preset| preset.name.to_owned()).collect();
        return Err(suggest::unknown("preset", name, &known, "`postroom preset ls` lists them"));
    };
    let text = if ddl { preset.ddl() } else { preset.text.trim_end().to_owned() };
    let answer = json!({ "name": preset.name, if ddl { "ddl" } else { "toml" }: text });
    app.global.output.one(&answer, || text)?;
    Ok(Exit::Done)
}
