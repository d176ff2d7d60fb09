//! Reads the configuration: flags over environment over file over preset over defaults, every problem named with its place.
//!
//! [`load`] goes through them in order: `find` the file, parse it, merge it over a `preset`, `layer` environment, flags and defaults
//! around it, check it against the `keys`, `read` what it means, show what is in force. What is the same for every program is
//! [`postroom_settings`]'s.

mod alias;
mod consumer;
#[cfg(feature = "contracts")]
mod contract;
mod definition;
mod find;
mod http;
mod keys;
mod layer;
#[cfg(feature = "adopted")]
mod mapping;
mod preset;
mod read;
mod routes;
mod stores;
mod target;
#[cfg(feature = "otlp")]
mod telemetry;
mod typed;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use alias::Alias;
#[cfg(feature = "http")]
pub(crate) use alias::extended;
pub use definition::{absent, init, reference, schema};
pub use postroom_settings::{ConfigError, Origin, Problem, Setting};
pub use preset::{PRESETS, Preset};
pub use target::Target;
pub use typed::{
    Anonymous, Config, HttpConfig, Listen, LogConfig, LogFormat, PoolerConfig, PostgresConfig, RelayConfig,
    RouteConfig, StoreConfig,
};

#[cfg(feature = "contracts")]
pub use typed::ContractConfig;
#[cfg(feature = "otlp")]
pub use typed::TelemetryConfig;

use definition::DEFINITION;
use postroom_settings::{Problems, Table};

/// Sources of a configuration, passed in so that tests bring their own.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`; without it, and without a preset, the file is searched.
    pub file: Option<PathBuf>,
    /// `--preset`: what lies under the file.
    pub preset: Option<String>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Dotted keys and values of the command line, for instance `("relay.lease", "30s")`.
    pub flags: Vec<(String, String)>,
    /// The working folder: relative paths start here.
    pub cwd: PathBuf,
}

impl Sources {
    /// The process's own environment and working folder.
    ///
    /// Variables that are not UTF-8 are left out.
    pub fn of_process(file: Option<PathBuf>, preset: Option<String>, flags: Vec<(String, String)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let env = std::env::vars_os().filter_map(text).collect();
        Self { file, preset, env, flags, cwd: std::env::current_dir().unwrap_or_default() }
    }
}

/// Reads the configuration, or says everything that is wrong with it.
pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
    let mut problems = Problems::default();
    let (tree, file) = complete(sources, &mut problems)?;
    DEFINITION.check(&tree, &mut problems);
    let settings = DEFINITION.settings(&tree);
    let config = read::config(&tree, sources, file, settings, &mut problems);
    if problems.is_empty() { Ok(config) } else { Err(problems.into_error()) }
}

/// Reads the one store of a configuration, for an application that brings transports of its own: routes are left out.
pub fn load_store(sources: &Sources) -> Result<StoreConfig, ConfigError> {
    let mut problems = Problems::default();
    let (mut tree, _) = complete(sources, &mut problems)?;
    tree.0.retain(|entry| entry.name != "route");
    DEFINITION.check(&tree, &mut problems);
    let config = read::config(&tree, sources, None, Vec::new(), &mut problems);
    if !problems.is_empty() {
        return Err(problems.into_error());
    }
    let count = config.stores.len();
    <[StoreConfig; 1]>::try_from(config.stores).map(|[store]| store).map_err(|_| {
        Problem::new(format!("the configuration has {count} stores, and one is expected"))
            .hint("name it in a file of its own, or choose a preset")
            .into()
    })
}

/// What was written, with everything that was not.
fn complete(sources: &Sources, problems: &mut Problems) -> Result<(Table, Option<PathBuf>), ConfigError> {
    let preset = preset::chosen(sources)?;
    let mut tree = match preset {
        Some(preset) => postroom_settings::preset(preset.name, preset.text, &sources.env, problems),
        None => Table::default(),
    };
    let mut file = None;
    if let Some((path, text)) = find::find(sources)? {
        match postroom_settings::file(&path, &text, &sources.env, problems) {
            Some(upper) => DEFINITION.merge(&mut tree, upper),
            None => return Err(std::mem::take(problems).into_error()),
        }
        file = Some(path);
    }
    layer::environment(&mut tree, &sources.env, problems);
    DEFINITION.flags(&mut tree, &sources.flags, problems);
    DEFINITION.shared(&mut tree);
    layer::defaults(&mut tree);
    Ok((tree, file))
}
