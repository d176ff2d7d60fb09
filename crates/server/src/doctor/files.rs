//! Which files with secrets or payloads other users of this machine can read.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use postroom_core::Diagnostic;
use postroom_settings::Origin;

use crate::config::Config;

/// Keys whose files hold secrets.
const SECRET_FILES: [&str; 8] = [
    "secret_file",
    "password_file",
    "url_file",
    "token_file",
    "metrics_token_file",
    "nkey_file",
    "credentials_file",
    "key_file",
];
/// Modes that let every user of the machine read.
const OTHERS_READ: u32 = 0o004;

pub(super) fn about(config: &Config) -> Vec<Diagnostic> {
    let open: Vec<Diagnostic> =
        secret_files(config).iter().filter(|path| is_open(path)).map(|path| warning(path)).collect();
    if open.is_empty() {
        vec![Diagnostic::fine("files with secrets and payloads are closed to other users of this machine")]
    } else {
        open
    }
}

/// The configuration if it holds a password, the files that it names, and the databases that are files.
fn secret_files(config: &Config) -> BTreeSet<PathBuf> {
    let in_file = |origin: &Origin| matches!(origin, Origin::File { .. });
    let holds = config.show().iter().any(|setting| setting.value.contains("***") && in_file(&setting.origin));
    let named = config
        .show()
        .iter()
        .filter(|setting| SECRET_FILES.contains(&setting.key.rsplit('.').next().unwrap_or_default()));
    // Values are shown as TOML: one text, or a list.
    let named = named.flat_map(|setting| setting.value.split('"').skip(1).step_by(2));
    let databases = config.stores.iter().filter_map(|store| {
        let path = store.url.expose().strip_prefix("sqlite:")?;
        path.trim_start_matches("//").split('?').next()
    });
    let files = named.chain(databases).map(PathBuf::from);
    files.chain(config.file.clone().filter(|_| holds)).collect()
}

/// Whether every user can read it. One that cannot be asked is another finding's business.
fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.permissions().mode() & OTHERS_READ != 0)
}

fn warning(path: &Path) -> Diagnostic {
    let shown = path.display();
    Diagnostic::warning("doctor.readable_file", format!("every user of this machine can read {shown}"))
        .fix(format!("chmod o-rwx {shown}"))
}
