//! The `postroom` command: parses the arguments, runs the command, and exits with a code that scripts can rely on.

mod absent;
mod actor;
mod app;
mod args;
mod commands;
mod confirm;
mod dev;
mod exit;
mod file;
mod groups;
mod ids;
mod lines;
mod log;
mod options;
mod output;
mod progress;
#[cfg(test)]
mod reference;
mod screen;
mod stop;
mod suggest;
mod traces;
mod when;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::app::App;
use crate::args::{Cli, Command};
use crate::commands::{
    audit, check, config, dashboards, dead, delivery, doctor, erase, event, explain, inbox, key, preset, prune, relay,
    replay, report, route, status, store, verify, version,
};
use crate::exit::{Failed, Outcome};
use crate::screen::Screen;

/// Allocator: the relay allocates and frees some objects per event, on several threads.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let asked = groups::in_help(absent::known(Cli::command())).get_matches();
    let Cli { global, command } = match absent::refuse(&asked) {
        Ok(()) => Cli::from_arg_matches(&asked).unwrap_or_else(|error| error.exit()),
        Err(failed) => return tell(&failed, false),
    };
    Screen::decide(&global);
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
        Command::Report(args) => report::run(app, &args).await,
        Command::Delivery(command) => delivery::run(app, command).await,
        Command::Dead(command) => dead::run(app, command).await,
        Command::Replay(args) => replay::run(app, *args).await,
        Command::Route(command) => route::run(app, command).await,
        Command::Key(command) => key::run(app, command).await,
        Command::Store(command) => store::run(app, command).await,
        Command::Inbox(command) => inbox::run(app, command).await,
        Command::Erase(args) => erase::run(app, &args).await,
        #[cfg(feature = "adopted")]
        Command::Adopt(args) => commands::adopt::run(app, &args).await,
        #[cfg(feature = "contracts")]
        Command::Schema(command) => commands::schema::run(app, &command),
        Command::Verify(args) => verify::run(app, &args).await,
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
        Command::Completions(args) => commands::completions::run(Cli::command(), &args),
        #[cfg(feature = "manual")]
        Command::Man(args) => commands::man::run(app, Cli::command(), &args),
        Command::Version => version::run(app),
    }
}
