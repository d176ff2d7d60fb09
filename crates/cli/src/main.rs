//! The `postroom` command: reads what is asked, does it, and ends with a code that scripts can trust.

mod absent;
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
mod traces;
mod when;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::app::App;
use crate::args::{Cli, Command};
use crate::commands::{
    audit, check, config, dashboards, dead, doctor, event, explain, inbox, key, preset, prune, relay, replay, route,
    status, store, version,
};
use crate::exit::{Failed, Outcome};

/// The relay makes and drops some objects per event, on several threads.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let asked = absent::known(Cli::command()).get_matches();
    let Cli { global, command } = match absent::refuse(&asked) {
        Ok(()) => Cli::from_arg_matches(&asked).unwrap_or_else(|error| error.exit()),
        Err(failed) => return tell(&failed, false),
    };
    let app = App { global };
    let exit = match run(&app, command).await {
        Ok(exit) => exit.into(),
        Err(failed) => tell(&failed, app.global.verbose),
    };
    log::flush();
    exit
}

fn tell(failed: &Failed, verbose: bool) -> ExitCode {
    log::say(failed.report(verbose).as_bytes());
    failed.exit.into()
}

async fn run(app: &App, command: Command) -> Outcome {
    match command {
        Command::Dev(args) => dev::run(app, args).await,
        Command::Relay(command) => relay::run(app, command).await,
        Command::Event(command) => event::run(app, command).await,
        Command::Status(args) => status::run(app, &args).await,
        #[cfg(feature = "top")]
        Command::Top(args) => commands::top::run(app, &args).await,
        Command::Doctor(args) => doctor::run(app, &args).await,
        Command::Check(args) => check::run(app, &args).await,
        Command::Dead(command) => dead::run(app, command).await,
        Command::Replay(args) => replay::run(app, *args).await,
        Command::Route(command) => route::run(app, command).await,
        Command::Key(command) => key::run(app, command).await,
        Command::Store(command) => store::run(app, command).await,
        Command::Inbox(command) => inbox::run(app, command).await,
        #[cfg(feature = "adopted")]
        Command::Adopt(args) => commands::adopt::run(app, &args).await,
        #[cfg(feature = "contracts")]
        Command::Schema(command) => commands::schema::run(app, &command),
        Command::Audit(args) => audit::run(app, &args).await,
        Command::Explain(args) => explain::run(app, &args),
        Command::Dashboards(command) => dashboards::run(app, &command),
        #[cfg(feature = "support")]
        Command::Support(command) => commands::support::run(app, &command).await,
        Command::Prune(args) => prune::run(app, &args).await,
        #[cfg(feature = "webhook")]
        Command::Webhook(command) => commands::webhook::run(app, command).await,
        #[cfg(feature = "http")]
        Command::Token(command) => commands::token::run(app, command).await,
        Command::Config(command) => config::run(app, &command).await,
        Command::Preset(command) => preset::run(app, &command),
        #[cfg(feature = "manual")]
        Command::Completions(args) => commands::completions::run(&args),
        #[cfg(feature = "manual")]
        Command::Man(args) => commands::man::run(app, &args),
        Command::Version => version::run(app),
    }
}
