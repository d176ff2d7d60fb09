//! `postroom webhook verify`: whether a receiver would trust these headers and this body.

use std::path::PathBuf;

use jiff::Timestamp;
use postroom_webhook::signature::{self, Signed, VerifyingKey};
use serde_json::json;

use super::secrets::{Secrets, body};
use crate::app::App;
use crate::exit::{Exit, Outcome};
use crate::options::help;

/// Verify the signature of a webhook body
#[derive(Debug, clap::Args)]
#[command(after_help = help!(verify:
    "postroom webhook verify --secret-file partner-whsec --header 'webhook-id: e-1' --header 'webhook-timestamp: 1614265330' --header 'webhook-signature: v1,g0hM9SsE' body.json",
))]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    secrets: Secrets,
    /// Header of the request; headers other than the three signature headers are ignored
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// File with the body, read byte for byte; `-` for stdin
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        }
        _ => Err(format!("{text:?} is not a header; write for instance 'webhook-id: e-1'")),
    }
}

pub(crate) fn run(app: &App, args: &VerifyArgs) -> Outcome {
    let keys = args.secrets.some_keys(VerifyingKey::parse)?;
    let body = body(&args.file)?;
    // Repeated headers are one list.
    let of = |name: &str| {
        let values = args.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>().join(" ")
    };
    let (id, timestamp, signature) = (of(signature::ID), of(signature::TIMESTAMP), of(signature::SIGNATURE));
    let signed = Signed { id: &id, timestamp: &timestamp, signature: &signature };
    let verified = signature::verify(&keys, signed, &body, Timestamp::now());
    let reason = verified.as_ref().err().map(ToString::to_string);
    let answer = json!({ "ok": reason.is_none(), "reason": reason });
    app.global.output.one(&answer, || match &reason {
        None => "the signature is good".to_owned(),
        Some(reason) => format!("the signature is not valid: {reason}"),
    })?;
    Ok(if reason.is_none() { Exit::Done } else { Exit::CheckFailed })
}
