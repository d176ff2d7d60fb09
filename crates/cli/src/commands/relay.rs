//! `postroom relay run`: the relay as a process. Logs on stderr; nothing else is printed.

use std::sync::Arc;

use postroom_relay::{NoObserver, Observer};
use postroom_server::config::Config;
use postroom_server::relay::{self, RunError, RunOptions};
use postroom_server::supervisor::Supervisor;

use crate::app::App;
use crate::args::help;
use crate::exit::{Exit, Failed, Outcome, Problem};
use crate::{log, stop};

/// Run the relay
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RelayCommand {
    Run(RunArgs),
}

/// Deliver events until stopped
#[derive(Debug, clap::Args)]
#[command(after_help = help!(run:
    "postroom relay run",
    "postroom relay run --route orders --route mailer",
    "postroom relay run --drain",
))]
pub(crate) struct RunArgs {
    /// Serve only this route; may be repeated
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
    /// Exit when nothing is due, in flight or retrying
    #[arg(long)]
    drain: bool,
}

pub(crate) async fn run(app: &App, command: RelayCommand) -> Outcome {
    let RelayCommand::Run(args) = command;
    let config = app.config()?;
    if app.global.dry_run {
        let hint = "see what would be delivered: `postroom status`; check the configuration: `postroom config check`";
        return Err(Failed::new(Exit::Usage, "a relay has no dry run: it delivers", hint));
    }
    log::start(config.log);
    let stop = stop::on_signal()?;
    let options = RunOptions { routes: args.routes, drain: args.drain };
    let observer: Arc<dyn Observer> = Arc::new(NoObserver);
    let Some(supervisor) = Supervisor::from_env(observer.clone()) else {
        relay::run(&config, options, observer, stop.cancelled_owned()).await?;
        return Ok(Exit::Done);
    };
    supervisor.expect(served(&config, &options.routes));
    let shutdown = async {
        stop.cancelled().await;
        supervisor.stopping();
    };
    tokio::select! {
        ended = relay::run(&config, options, supervisor.clone(), shutdown) => ended?,
        never = supervisor.tell() => match never {},
    }
    Ok(Exit::Done)
}

/// How many routes that is, each counted once per store.
fn served(config: &Config, routes: &[String]) -> usize {
    let wanted = config.routes.iter().filter(|r| routes.is_empty() || routes.contains(&r.definition.name));
    wanted.map(|route| route.stores.len()).sum()
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Config(error) => error.into(),
            RunError::Unreachable(stores) => {
                let problems = stores.into_iter().map(|(store, error)| Problem {
                    message: format!("store {store} cannot be reached: {}", error.message),
                    hint: error.hint,
                });
                Self::several(Exit::Unreachable, problems.collect())
            }
            RunError::Refused { error, .. } => error.into(),
            RunError::Relay(error) => {
                let problem = Problem { message: error.to_string(), hint: error.error.hint.clone() };
                let mut failed = Self::from(error.error);
                failed.problems = vec![problem];
                failed
            }
        }
    }
}
