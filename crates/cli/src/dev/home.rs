//! The folder the demo lives in: its database, and a configuration so that every other command works on it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use postroom_server::config::{self, Config, Sources};
use tempfile::TempDir;

use crate::exit::{Exit, Failed};

/// The store's name in that configuration.
pub(crate) const STORE: &str = "main";

/// How our own configuration begins; another one is never overwritten.
const HEAD: &str = "# Written by `postroom dev`.";

/// The demo's folder; a temporary one goes with it.
#[derive(Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    temporary: Option<TempDir>,
}

impl Home {
    /// Makes the folder and writes the configuration.
    pub(crate) fn prepare(dir: Option<&Path>) -> Result<Self, Failed> {
        let home = if let Some(dir) = dir {
            fs::create_dir_all(dir).map_err(|e| cannot("make the folder", dir, &e))?;
            let folder = fs::canonicalize(dir).map_err(|e| cannot("find the folder", dir, &e))?;
            Self { folder, temporary: None }
        } else {
            let made = tempfile::Builder::new().prefix("postroom-dev-").tempdir();
            let made = made.map_err(|e| cannot("make a folder in", &std::env::temp_dir(), &e))?;
            Self { folder: made.path().to_owned(), temporary: Some(made) }
        };
        let file = home.config();
        match fs::read_to_string(&file) {
            Ok(text) if !text.starts_with(HEAD) => {
                let message = format!("{} is not the demo's own; it was not changed", file.display());
                return Err(Failed::new(Exit::Refused, message, "give the demo an empty folder with --dir"));
            }
            _ => fs::write(&file, home.toml()).map_err(|e| cannot("write", &file, &e))?,
        }
        Ok(home)
    }

    /// The database file.
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join("shop.db")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("postroom.toml")
    }

    fn toml(&self) -> String {
        let url = format!("sqlite://{}", self.database().display());
        // A JSON string is a TOML string, quoting included.
        let url = serde_json::Value::String(url);
        format!(
            "{HEAD} Look at the running demo with any command and --config.\nname = \"dev\"\n\n[store.{STORE}]\nurl = {url}\n"
        )
    }

    /// The demo's own configuration, and what the environment says of traces.
    pub(crate) fn load(&self) -> Result<Config, Failed> {
        let mut sources = Sources::of_process(Some(self.config()), None, Vec::new());
        // All else is for relays that are no demo.
        sources.env.retain(|name, _| name.starts_with("POSTROOM_TELEMETRY__") || name.starts_with("OTEL_"));
        Ok(config::load(&sources)?)
    }

    /// What it is, where it is, how to break it.
    pub(crate) fn banner(&self) -> String {
        let (config, folder) = (self.config(), self.folder.display());
        let config = config.display();
        // As it was called: a program that is not installed is not found by its name.
        let postroom = std::env::args().next().unwrap_or_else(|| "postroom".to_owned());
        format!(
            "postroom dev: a shop appends orders to its own database, a relay delivers them to a mailer that sometimes fails.
Everything is in {folder}; Ctrl-C stops it.

Try to break it, from another terminal:
  {postroom} status --watch --config {config}
  {postroom} event tail --config {config}
  {postroom} route pause mailer --config {config}   and then: route resume mailer
  {postroom} dead ls --config {config}
  {postroom} dead replay --all --config {config}
  {postroom} verify --config {config}
  kill -9 {}   and then continue with: {postroom} dev --dir {folder}
",
            std::process::id()
        )
    }

    /// Removes a temporary folder.
    pub(crate) fn leave(self) -> Result<(), Failed> {
        let folder = self.folder;
        self.temporary.map_or(Ok(()), TempDir::close).map_err(|e| cannot("remove", &folder, &e))
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failed {
    Failed::new(Exit::Failed, format!("cannot {verb} {}: {error}", path.display()), "name another folder with --dir")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_is_not_the_demos_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("postroom.toml");
        fs::write(&file, "name = \"mine\"\n").unwrap();
        assert_eq!(Home::prepare(Some(dir.path())).unwrap_err().exit, Exit::Refused);
        assert_eq!(fs::read_to_string(&file).unwrap(), "name = \"mine\"\n");
    }

    #[test]
    fn a_temporary_folder_goes_and_a_named_one_stays() {
        let home = Home::prepare(None).unwrap();
        let folder = home.folder.clone();
        assert!(folder.join("postroom.toml").exists());
        home.leave().unwrap();
        assert!(!folder.exists());
        let dir = tempfile::tempdir().unwrap();
        Home::prepare(Some(dir.path())).unwrap().leave().unwrap();
        Home::prepare(Some(dir.path())).unwrap().leave().unwrap();
        assert!(dir.path().join("postroom.toml").exists());
    }
}
