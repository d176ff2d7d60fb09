//! `postroom webhook key`: a new secret, or a pair of keys. The one command that prints a secret, because it is its purpose.

use std::io::Write;
use std::path::PathBuf;

use postroom_webhook::signature;
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::file::NewFile;
use crate::options::help;

/// Generate a signing secret
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom webhook key --file partner-whsec",
    "postroom webhook key --ed25519 -o json",
))]
pub(crate) struct KeyArgs {
    /// Generate a key pair instead of a shared secret: print the private key for the sender, then the public key for receivers
    #[arg(long)]
    ed25519: bool,
    /// Write the secret, or the private key, to a new file that only its owner can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(crate) fn run(app: &App, args: &KeyArgs) -> Outcome {
    let failed = |error: signature::KeyError| Failed::new(Exit::Failed, error.to_string(), "");
    let (name, secret, public) = if args.ed25519 {
        let pair = signature::new_key_pair().map_err(failed)?;
        ("private", pair.private, Some(pair.public))
    } else {
        ("secret", signature::new_secret().map_err(failed)?, None)
    };
    let mut answer = serde_json::Map::new();
    let mut lines = Vec::new();
    if let Some(path) = &args.file {
        let mut file = NewFile::begin(path, false)?;
        writeln!(file, "{}", secret.expose())?;
        file.finish()?;
        answer.insert("file".to_owned(), json!(path));
        lines.push(format!("wrote {}", path.display()));
    } else {
        answer.insert(name.to_owned(), json!(secret.expose()));
        lines.push(secret.expose().to_owned());
    }
    if let Some(public) = public {
        answer.insert("public".to_owned(), json!(public));
        lines.push(public);
    }
    app.global.output.one(&answer, || lines.join("\n"))?;
    Ok(Exit::Done)
}
