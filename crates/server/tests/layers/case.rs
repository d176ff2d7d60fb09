//! A folder with files, an environment and flags.

use postroom_server::config::{Config, ConfigError, Sources, load};
#[cfg(all(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
use postroom_server::config::{StoreConfig, load_store};
use tempfile::TempDir;

pub(crate) struct Case {
    folder: TempDir,
    sources: Sources,
}

impl Case {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let cwd = folder.path().to_owned();
        // An empty XDG folder keeps the machine's own files out of the test.
        let env = [("XDG_CONFIG_HOME".to_owned(), cwd.join("xdg").display().to_string())].into();
        Self { folder, sources: Sources { cwd, env, ..Sources::default() } }
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn env(mut self, variable: &str, value: &str) -> Self {
        self.sources.env.insert(variable.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn flag(mut self, key: &str, value: &str) -> Self {
        self.sources.flags.push((key.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn named(mut self, file: &str) -> Self {
        self.sources.file = Some(file.into());
        self
    }

    pub(crate) fn preset(mut self, name: &str) -> Self {
        self.sources.preset = Some(name.to_owned());
        self
    }

    #[cfg(all(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
    pub(crate) fn load_store(&self) -> Result<StoreConfig, ConfigError> {
        load_store(&self.sources)
    }

    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        load(&self.sources)
    }

    #[track_caller]
    pub(crate) fn config(&self) -> Config {
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    pub(crate) fn error(&self) -> String {
        self.load().expect_err("it was accepted").to_string()
    }
}

pub(crate) fn origin(config: &Config, key: &str) -> (String, String) {
    let setting = config.show().iter().find(|s| s.key == key).unwrap_or_else(|| panic!("no {key}"));
    (setting.value.clone(), setting.origin.to_string())
}
