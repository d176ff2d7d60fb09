//! `postroom webhook`: a receiver to try things with, signatures by hand, and new secrets. Needs no store.

mod key;
mod listen;
mod secrets;
mod sign;
mod verify;

use crate::app::App;
use crate::exit::Outcome;

/// Receive test webhooks, sign and verify webhook bodies
#[derive(Debug, clap::Subcommand)]
pub(crate) enum WebhookCommand {
    Listen(listen::ListenArgs),
    Sign(sign::SignArgs),
    Verify(verify::VerifyArgs),
    Key(key::KeyArgs),
}

pub(crate) async fn run(app: &App, command: WebhookCommand) -> Outcome {
    match command {
        WebhookCommand::Listen(args) => listen::run(app, args).await,
        WebhookCommand::Sign(args) => sign::run(app, &args),
        WebhookCommand::Verify(args) => verify::run(app, &args),
        WebhookCommand::Key(args) => key::run(app, &args),
    }
}
