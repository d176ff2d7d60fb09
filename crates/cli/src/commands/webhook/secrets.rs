//! Where these commands get secrets and bodies from. What a secret says never reaches an error.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use postroom_core::Secret;
use postroom_webhook::signature::KeyError;

use crate::exit::{Exit, Failed};

/// Largest body that is read; the payload limit is far below.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Secrets {
    /// File with a secret, whsec_ or whsk_; may be repeated
    #[arg(long = "secret-file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Secret; other users of this machine can see arguments, so prefer a file or the variable
    #[arg(long = "secret", value_name = "SECRET", value_parser = secret, env = "WEBHOOK_SECRET", hide_env_values = true, value_delimiter = ' ')]
    secrets: Vec<Secret>,
}

// A parser of our own, so that a secret is one from the first moment.
#[expect(clippy::unnecessary_wraps, reason = "a parser may fail")]
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text.trim()))
}

impl Secrets {
    /// Parses every given secret with `parse`; the list may be empty.
    pub(crate) fn keys<K>(&self, parse: impl Fn(&str) -> Result<K, KeyError>) -> Result<Vec<K>, Failed> {
        let wrong = |what: String, error: KeyError| {
            Failed::new(Exit::Usage, format!("{what}: {error}"), "generate a secret with `postroom webhook key`")
        };
        let mut keys = Vec::new();
        // A variable that is there and empty says that there is none.
        for secret in self.secrets.iter().filter(|secret| !secret.expose().is_empty()) {
            keys.push(parse(secret.expose()).map_err(|error| wrong("the secret".to_owned(), error))?);
        }
        for file in &self.files {
            let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
            keys.push(parse(text.trim()).map_err(|error| wrong(format!("the secret in {}", file.display()), error))?);
        }
        Ok(keys)
    }

    /// Parses every given secret with `parse`, and fails if there is none.
    pub(crate) fn some_keys<K>(&self, parse: impl Fn(&str) -> Result<K, KeyError>) -> Result<Vec<K>, Failed> {
        let keys = self.keys(parse)?;
        if keys.is_empty() {
            let hint = "give --secret-file FILE, or set WEBHOOK_SECRET; `postroom webhook key` generates a secret";
            return Err(Failed::new(Exit::Usage, "no secret is given", hint));
        }
        Ok(keys)
    }
}

/// Reads the body from a file or from stdin, byte for byte.
pub(crate) fn body(file: &Path) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(BODY_BYTES_MAX + 1).read_to_end(&mut body)
    } else {
        fs::File::open(file).and_then(|opened| opened.take(BODY_BYTES_MAX + 1).read_to_end(&mut body))
    };
    let read = read.map_err(|error| unreadable(file, &error))?;
    if read as u64 > BODY_BYTES_MAX {
        return Err(Failed::new(Exit::Usage, format!("{} is longer than {BODY_BYTES_MAX} bytes", file.display()), ""));
    }
    Ok(body)
}

fn unreadable(file: &Path, error: &io::Error) -> Failed {
    let name = if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() };
    Failed::new(Exit::Usage, format!("{name} cannot be read: {error}"), "")
}
