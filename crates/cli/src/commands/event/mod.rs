//! `postroom event`: appends, lists, shows, tails and exports events.

mod append;
mod export;
mod ls;
mod notes;
mod show;
mod tail;

pub(crate) use show::{causes, find, render};

use crate::app::App;
use crate::exit::Outcome;

/// Append, list, show, tail and export events
#[derive(Debug, clap::Subcommand)]
pub(crate) enum EventCommand {
    Append(append::AppendArgs),
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Tail(tail::TailArgs),
    Export(export::ExportArgs),
}

pub(crate) async fn run(app: &App, command: EventCommand) -> Outcome {
    match command {
        EventCommand::Append(args) => append::run(app, args).await,
        EventCommand::Ls(args) => ls::run(app, &args).await,
        EventCommand::Show(args) => show::run(app, &args).await,
        EventCommand::Tail(args) => tail::run(app, &args).await,
        EventCommand::Export(args) => export::run(app, &args).await,
    }
}
