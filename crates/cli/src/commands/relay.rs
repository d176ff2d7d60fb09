//! `postroom relay run`: the relay as a process. Logs on stderr; on a terminal [`watched`] adds what people want to know.

use std::convert::Infallible;
use std::sync::Arc;

#[cfg(feature = "http")]
use postroom_server::config::Config;
#[cfg(feature = "http")]
use postroom_server::http::{BindError, Server};
use postroom_server::monitor::Monitor;
use postroom_server::relay::RunOptions;
use postroom_server::reload;
use postroom_server::run_error::RunError;
use postroom_server::supervisor::Supervisor;
#[cfg(feature = "http")]
use tokio::task::JoinHandle;
#[cfg(feature = "http")]
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::commands::watched;
use crate::exit::{Exit, Failed, Outcome, Problem};
use crate::options::help;
use crate::{log, stop};

/// Run the relay, which delivers events
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RelayCommand {
    Run(RunArgs),
}

/// Run a relay that delivers events until it is stopped
#[derive(Debug, clap::Args)]
#[command(after_help = help!(run:
    "postroom relay run --listen 127.0.0.1:7480",
    "postroom relay run --route orders --route mailer",
    "postroom relay run --drain",
))]
pub(crate) struct RunArgs {
    /// Route to serve; may be repeated [default: all routes]
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
    /// Exit when nothing is due, in flight or retrying
    #[arg(long)]
    drain: bool,
    /// Serve health, metrics and the API on this address instead of http.listen
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

pub(crate) async fn run(app: &App, command: RelayCommand) -> Outcome {
    let RelayCommand::Run(args) = command;
    let flags: Vec<_> = args.listen.iter().map(|address| ("http.listen".to_owned(), address.clone())).collect();
    let load = || app.load(flags.clone());
    let config = load()?;
    if app.global.dry_run {
        let hint = "see what would be delivered: `postroom status`; check the configuration: `postroom config check`";
        return Err(Failed::new(Exit::Usage, "a relay has no dry run: it delivers", hint));
    }
    log::start(config.log)?;
    // Handlers are programs of the same user: they are not to read our environment or memory, which hold passwords.
    nix::sys::prctl::set_dumpable(false).map_err(std::io::Error::from)?;
    let stop = stop::on_signal()?;
    let monitor = Arc::new(Monitor::new(&config));
    log::count_dropped(monitor.metrics.log_lines_dropped());
    let health = Arc::clone(&monitor.health);
    let supervisor = Supervisor::from_env(Arc::clone(&health));
    #[cfg(feature = "http")]
    let answering = Answering::start(&config, &monitor).await?;
    let told = async move {
        stop.cancelled_owned().await;
        health.stopping();
    };
    let mut options = RunOptions::default();
    (options.routes, options.drain, options.allow_discard) = (args.routes, args.drain, app.global.yes);
    let watched = log::is_watched(config.log);
    if watched {
        watched::hello(&config, &options.routes);
    }
    let ended = tokio::select! {
        ended = reload::run(config, options, Arc::clone(&monitor), stop::on_reload()?, load, told) => ended,
        never = tell(supervisor) => match never {},
        never = watched::count(&monitor.totals), if watched => match never {},
    };
    // Answered until the end: who watches sees that it stops.
    #[cfg(feature = "http")]
    answering.end().await;
    monitor.stop().await;
    if watched && ended.is_ok() {
        watched::goodbye(&monitor.totals);
    }
    ended?;
    Ok(Exit::Done)
}

async fn tell(supervisor: Option<Supervisor>) -> Infallible {
    match supervisor {
        Some(supervisor) => supervisor.tell().await,
        None => std::future::pending().await,
    }
}

/// Opens the HTTP listener, if one is configured.
#[cfg(feature = "http")]
struct Answering {
    server: Option<JoinHandle<()>>,
    over: CancellationToken,
}

#[cfg(feature = "http")]
impl Answering {
    async fn start(config: &Config, monitor: &Arc<Monitor>) -> Result<Self, BindError> {
        let over = CancellationToken::new();
        let server = Server::bind(config, Arc::clone(monitor)).await?;
        let server = server.map(|server| tokio::spawn(server.run(over.clone().cancelled_owned())));
        Ok(Self { server, over })
    }

    async fn end(self) {
        self.over.cancel();
        if let Some(server) = self.server {
            let _ = server.await;
        }
    }
}

#[cfg(feature = "http")]
impl From<BindError> for Failed {
    fn from(error: BindError) -> Self {
        Self::new(
            Exit::Failed,
            error.to_string(),
            "stop what has the address, or choose another: --listen 127.0.0.1:7481",
        )
    }
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
            other => {
                Self::new(Exit::Failed, other.to_string(), "run it again with -v to see the causes").caused_by(&other)
            }
        }
    }
}
