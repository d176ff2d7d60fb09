//! `postroom version`.

use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Outcome};

pub(crate) fn run(app: &App) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let answer = json!({ "version": version, "os": system, "arch": processor });
    app.global.output.one(&answer, || format!("postroom {version} ({system} {processor})"))?;
    Ok(Exit::Done)
}
