//! `postroom webhook key`: a new secret, or a pair of keys. The one command that prints a secret, because it is its purpose.

use postroom_webhook::signature;
use serde_json::json;

use crate::app::App;
use crate::args::help;
use crate::exit::{Exit, Failed, Outcome};

/// Make a new secret to sign with
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom webhook key > partner-whsec",
    "postroom webhook key --ed25519 -o json",
))]
pub(crate) struct KeyArgs {
    /// A pair instead of a shared secret: the private key to sign with, then the public one for receivers
    #[arg(long)]
    ed25519: bool,
}

pub(crate) fn run(app: &App, args: &KeyArgs) -> Outcome {
    let failed = |error: signature::KeyError| Failed::new(Exit::Failed, error.to_string(), "");
    let (answer, text) = if args.ed25519 {
        let pair = signature::new_key_pair().map_err(failed)?;
        let (private, public) = (pair.private.expose(), &pair.public);
        (json!({ "private": private, "public": public }), format!("{private}\n{public}"))
    } else {
        let secret = signature::new_secret().map_err(failed)?;
        (json!({ "secret": secret.expose() }), secret.expose().to_owned())
    };
    app.global.output.one(&answer, || text)?;
    Ok(Exit::Done)
}
