//! The `postroom` command: reads what is asked, does it, and ends with a code that scripts can trust.

mod actor;
mod app;
mod args;
mod commands;
mod confirm;
mod dev;
mod exit;
mod file;
mod lines;
mod log;
mod output;
#[cfg(test)]
mod reference;
mod stop;
mod suggest;
mod when;

use std::process::ExitCode;

use clap::Parser;

use crate::app::App;
use crate::args::{Cli, Command};
use crate::commands::{
    adopt, audit, check, completions, config, dashboards, dead, doctor, event, explain, inbox, key, man, preset, prune,
    relay, replay, route, schema, status, store, support, token, top, version,
};
use crate::exit::Outcome;

/// The relay makes and drops some objects per event, on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let app = App { global: cli.global };
    let exit = match run(&app, cli.command).await {
        Ok(exit) => exit.into(),
        Err(failed) => {
            log::say(failed.report(app.global.verbose).as_bytes());
            failed.exit.into()
        }
    };
    log::flush();
    exit
}

async fn run(app: &App, command: Command) -> Outcome {
    match command {
        Command::Dev(args) => dev::run(app, args).await,
        Command::Relay(command) => relay::run(app, command).await,
        Command::Event(command) => event::run(app, command).await,
        Command::Status(args) => status::run(app, &args).await,
        Command::Top(args) => top::run(app, &args).await,
        Command::Doctor(args) => doctor::run(app, &args).await,
        Command::Check(args) => check::run(app, &args).await,
        Command::Dead(command) => dead::run(app, command).await,
        Command::Replay(args) => replay::run(app, *args).await,
        Command::Route(command) => route::run(app, command).await,
        Command::Key(command) => key::run(app, command).await,
        Command::Store(command) => store::run(app, command).await,
        Command::Inbox(command) => inbox::run(app, command).await,
        Command::Adopt(args) => adopt::run(app, &args).await,
        Command::Schema(command) => schema::run(app, &command),
        Command::Audit(args) => audit::run(app, &args).await,
        Command::Explain(args) => explain::run(app, &args),
        Command::Dashboards(command) => dashboards::run(app, &command),
        Command::Support(command) => support::run(app, &command).await,
        Command::Prune(args) => prune::run(app, &args).await,
        #[cfg(feature = "webhook")]
        Command::Webhook(command) => commands::webhook::run(app, command).await,
        Command::Token(command) => token::run(app, command).await,
        Command::Config(command) => config::run(app, &command).await,
        Command::Preset(command) => preset::run(app, &command),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(app, &args),
        Command::Version => version::run(app),
    }
}
