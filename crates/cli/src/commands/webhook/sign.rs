//! `postroom webhook sign`: the three headers of a body, for trying a receiver by hand.

use std::path::PathBuf;

use jiff::Timestamp;
use postroom_webhook::signature::{self, SigningKey};
use serde_json::json;

use super::secrets::{Secrets, body};
use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;

/// Print the signature headers for a webhook body
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom webhook sign --secret-file partner-whsec --id e-1 body.json",
    "postroom webhook sign --secret-file old --secret-file new --id e-1 --timestamp 1614265330 -",
))]
pub(crate) struct SignArgs {
    #[command(flatten)]
    secrets: Secrets,
    /// Id of the event
    #[arg(long, value_name = "ID")]
    id: String,
    /// Time of the signature: seconds since 1970, or RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    timestamp: Option<Timestamp>,
    /// File with the body, read byte for byte; `-` for stdin
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

fn time(text: &str) -> Result<Timestamp, String> {
    let seconds = text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    seconds
        .or_else(|| text.parse().ok())
        .ok_or_else(|| format!("{text:?} is not a time; write seconds such as 1614265330, or 2026-11-15T09:30:00Z"))
}

pub(crate) fn run(app: &App, args: &SignArgs) -> Outcome {
    if args.id.contains('.') || !args.id.bytes().all(|b| b.is_ascii_graphic()) || args.id.is_empty() {
        let hint = "a relay would send such characters as %2E and so on";
        let message = format!("{:?} cannot be a webhook-id: visible ASCII without a dot", args.id);
        return Err(Failed::new(Exit::Usage, message, hint));
    }
    let keys = args.secrets.some_keys(SigningKey::parse)?;
    let body = body(&args.file)?;
    let timestamp = args.timestamp.unwrap_or_else(Timestamp::now).as_second();
    let signed = signature::sign(&keys, &args.id, timestamp, &body);
    let (id, when, what) = (signature::ID, signature::TIMESTAMP, signature::SIGNATURE);
    let headers = json!({ id: args.id, when: timestamp.to_string(), what: signed });
    app.global.output.one(&headers, || format!("{id}: {}\n{when}: {timestamp}\n{what}: {signed}", args.id))?;
    Ok(Exit::Done)
}
