//! `postroom dashboards export`: writes dashboards and alert rules for Grafana and Prometheus.

use std::fs;
use std::path::PathBuf;

use postroom_server::dashboards;
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::output::Table;

/// Export dashboards for Grafana and alert rules for Prometheus
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DashboardsCommand {
    Export(ExportArgs),
}

/// Write Grafana dashboards and Prometheus alert rules into a folder, replacing files of the same names
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain: "postroom dashboards export", "postroom dashboards export --dir monitoring"))]
pub(crate) struct ExportArgs {
    /// Folder to write into, created if missing
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(app: &App, command: &DashboardsCommand) -> Outcome {
    let DashboardsCommand::Export(args) = command;
    let files = dashboards::export();
    let failed = |path: &PathBuf, error: &std::io::Error| {
        let hint = "choose a folder that can be written with --dir";
        Failed::new(Exit::Usage, format!("{} cannot be written: {error}", path.display()), hint)
    };
    if !app.global.dry_run {
        fs::create_dir_all(&args.dir).map_err(|error| failed(&args.dir, &error))?;
        for file in &files {
            let path = args.dir.join(file.file);
            fs::write(&path, &file.text).map_err(|error| failed(&path, &error))?;
        }
    }
    let rows: Vec<_> =
        files.iter().map(|file| json!({ "file": args.dir.join(file.file), "bytes": file.text.len() })).collect();
    app.global.output.list(&rows, || {
        let mut table = Table::new(&["file", "bytes"], &[1]);
        for file in &files {
            table.row([args.dir.join(file.file).display().to_string(), file.text.len().to_string()]);
        }
        table
    })?;
    Ok(Exit::Done)
}
