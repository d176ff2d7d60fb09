//! Finds the configuration file: the one that is named, else the first that exists.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use postroom_settings::{ConfigError, Problem};

use super::Sources;

/// The file and its text; `None` when none is named and none is found. With a preset none is searched: what happens to lie
/// around must not change it.
pub(super) fn find(sources: &Sources) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let variable = |name: &str| sources.env.get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = sources.file.clone().or_else(|| variable("POSTROOM_CONFIG")) {
        return match std::fs::read_to_string(sources.cwd.join(&path)) {
            Ok(text) => Ok(Some((path, text))),
            Err(error) => Err(unreadable(&path, &error)),
        };
    }
    for path in places(sources) {
        match std::fs::read_to_string(sources.cwd.join(&path)) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(None)
}

/// Where a file is looked for when none is named: nowhere with a preset.
pub(super) fn places(sources: &Sources) -> Vec<PathBuf> {
    let variable = |name: &str| sources.env.get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if sources.preset.is_some() || variable("POSTROOM_PRESET").is_some() {
        return Vec::new();
    }
    let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let places = [
        Some(PathBuf::from("postroom.toml")),
        home.map(|folder| folder.join("postroom/config.toml")),
        Some(PathBuf::from("/etc/postroom/config.toml")),
    ];
    places.into_iter().flatten().collect()
}

fn unreadable(path: &Path, error: &std::io::Error) -> ConfigError {
    let reason = match error.kind() {
        ErrorKind::NotFound => "it does not exist".to_owned(),
        ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    Problem::new(format!("cannot read the configuration {}: {reason}", path.display()))
        .hint("`postroom config init` writes a commented one")
        .into()
}
