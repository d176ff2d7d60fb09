//! `postroom relay run`: the relay as a process. Logs on stderr; nothing else is printed.

use std::convert::Infallible;
use std::sync::Arc;

#[cfg(feature = "http")]
use postroom_server::config::Config;
#[cfg(feature = "http")]
use postroom_server::http::{BindError, Server};
use postroom_server::operating::Operating;
use postroom_server::relay::{RunError, RunOptions};
use postroom_server::reload;
use postroom_server::supervisor::Supervisor;
#[cfg(feature = "http")]
use tokio::task::JoinHandle;
#[cfg(feature = "http")]
use tokio_util::sync::CancellationToken;

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
    "postroom relay run --listen 127.0.0.1:7480",
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
    /// Answer health, metrics and the API here, instead of at http.listen
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
    let stop = stop::on_signal()?;
    let operating = Arc::new(Operating::new(&config));
    log::count_dropped(operating.metrics.log_lines_dropped());
    let health = Arc::clone(&operating.health);
    let supervisor = Supervisor::from_env(Arc::clone(&health));
    #[cfg(feature = "http")]
    let answering = Answering::start(&config, &operating).await?;
    let told = async move {
        stop.cancelled_owned().await;
        health.stopping();
    };
    let options = RunOptions { routes: args.routes, drain: args.drain, operating: None };
    let ended = tokio::select! {
        ended = reload::run(config, options, Arc::clone(&operating), stop::on_reload()?, load, told) => ended,
        never = tell(supervisor) => match never {},
    };
    // Answered until the end: who watches sees that it stops.
    #[cfg(feature = "http")]
    answering.end().await;
    operating.stop().await;
    ended?;
    Ok(Exit::Done)
}

async fn tell(supervisor: Option<Supervisor>) -> Infallible {
    match supervisor {
        Some(supervisor) => supervisor.tell().await,
        None => std::future::pending().await,
    }
}

/// The listener, if there is one.
#[cfg(feature = "http")]
struct Answering {
    server: Option<JoinHandle<()>>,
    over: CancellationToken,
}

#[cfg(feature = "http")]
impl Answering {
    async fn start(config: &Config, operating: &Arc<Operating>) -> Result<Self, BindError> {
        let over = CancellationToken::new();
        let server = Server::bind(config, Arc::clone(operating)).await?;
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
        }
    }
}
