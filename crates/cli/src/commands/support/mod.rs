//! `postroom support bundle`: writes diagnostics to one file. [`gather`] collects them from the stores, [`metrics`] from a
//! running relay, and [`pseudonyms`] replaces names.

mod gather;
mod metrics;
mod pseudonyms;

use std::io::{self, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::file::NewFile;
use crate::options::help;
use crate::output::count;
use crate::stop;
use gather::Part;
use pseudonyms::Pseudonyms;

/// Collect diagnostics for a support request
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SupportCommand {
    Bundle(BundleArgs),
}

/// Write a support bundle: one file with diagnostics, without payloads and secrets
#[derive(Debug, clap::Args)]
#[command(after_help = help!(bundle:
    "postroom support bundle",
    "postroom support bundle --redact --file bundle.tar.gz",
))]
pub(crate) struct BundleArgs {
    /// File to write, readable only by you [default: postroom-support-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "file")]
    overwrite: bool,
    /// Replace names, ids, keys, tenants, hosts and texts with pseudonyms; equal values get equal pseudonyms
    #[arg(long)]
    redact: bool,
}

pub(crate) async fn run(app: &App, command: &SupportCommand) -> Outcome {
    let SupportCommand::Bundle(args) = command;
    let config = app.config()?;
    let made_at = Timestamp::now();
    let usual = || PathBuf::from(format!("postroom-support-{}.tar.gz", made_at.strftime("%Y%m%dT%H%M%SZ")));
    let path = args.file.clone().unwrap_or_else(usual);
    // Asked before anything else: nobody waits a minute to hear that the file is there.
    let file = if app.global.dry_run { None } else { Some(NewFile::begin(&path, args.overwrite)?) };
    let mut parts = unless_stopped(Box::pin(gather::everything(&config))).await?;
    if args.redact {
        let mut words = Pseudonyms::default();
        parts = parts.into_iter().map(|part| part.redacted(&mut words)).collect();
    }
    let missing: Vec<String> = parts.iter().filter(|part| part.missing()).map(Part::file).collect();
    if let Some(mut file) = file {
        pack(&mut file, &parts, made_at, args.redact)?;
        file.finish()?;
    }
    let files: Vec<String> = parts.iter().map(Part::file).collect();
    let answer = json!({ "file": path, "redacted": args.redact, "files": files, "missing": missing });
    app.global.output.one(&answer, || {
        let wrote = if app.global.dry_run { "would write" } else { "wrote" };
        let mut text = format!("{wrote} {}: {}", path.display(), count(files.len() as u64, "file"));
        if !missing.is_empty() {
            text = format!("{text}; not answered, with the reason inside: {}", missing.join(", "));
        }
        text
    })?;
    Ok(if missing.is_empty() { Exit::Done } else { Exit::Partly })
}

fn pack(to: &mut impl Write, parts: &[Part], made_at: Timestamp, redacted: bool) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(to, Compression::default()));
    let mut add = |name: &str, text: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(made_at.as_second()).unwrap_or_default());
        tar.append_data(&mut header, format!("postroom-support/{name}"), text.as_bytes())
    };
    add("README.txt", &about(made_at, redacted))?;
    for part in parts {
        add(&part.file(), &part.text())?;
    }
    tar.into_inner()?.finish()?.flush()
}

fn about(made_at: Timestamp, redacted: bool) -> String {
    let names = if redacted {
        "Names, ids, keys, tenants, hosts and texts are replaced; the same one always by the same word."
    } else {
        "Names, ids, keys, tenants, hosts and what receivers said are in it: `--redact` replaces them."
    };
    format!(
        "Made by postroom {} at {made_at:.0}. No payloads, no passwords.\n{names}\n\
         A file that ends in .missing.txt says why something could not be asked.\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Runs the work that fills a file. A signal stops it cleanly, so that no partial file is left.
async fn unless_stopped<T>(work: impl Future<Output = T>) -> Result<T, Failed> {
    let stop = stop::on_signal()?;
    tokio::select! {
        done = work => Ok(done),
        () = stop.cancelled() => Err(Failed::new(Exit::Failed, "interrupted; nothing was written", "")),
    }
}
