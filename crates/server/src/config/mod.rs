//! Reads the configuration: flags over environment over file over preset over defaults, every problem named with its place.
//!
//! [`load`] goes through the files of this folder in order: `find` the file, `parse` it, `merge` it over a `preset`, `layer`
//! environment, flags and defaults around it, `check` it against `keys`, `read` what it means, `show` what is in force.

mod absent;
mod alias;
mod check;
#[cfg(feature = "contracts")]
mod contract;
mod find;
mod http;
mod init;
mod keys;
mod layer;
#[cfg(feature = "adopted")]
mod layout;
mod merge;
mod parse;
mod path;
mod preset;
mod problem;
mod read;
mod reference;
mod routes;
mod schema;
mod show;
mod stores;
#[cfg(feature = "otlp")]
mod telemetry;
mod transports;
mod tree;
mod typed;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use absent::absent;
pub use alias::Alias;
#[cfg(feature = "http")]
pub(crate) use alias::extended;
pub use init::init;
pub use preset::{PRESETS, Preset};
pub use problem::{ConfigError, Problem};
pub use reference::reference;
pub use schema::schema;
pub use show::Setting;
pub use transports::Target;
pub use tree::Origin;
pub use typed::{
    Anonymous, Config, HttpConfig, Listen, LogConfig, LogFormat, PoolerConfig, PostgresConfig, RelayConfig,
    RouteConfig, StoreConfig,
};

#[cfg(feature = "exec")]
pub use transports::{ExecPeer, ExecTarget};
#[cfg(feature = "contracts")]
pub use typed::ContractConfig;
#[cfg(feature = "otlp")]
pub use typed::TelemetryConfig;

use problem::Problems;
use tree::Table;

/// Where a configuration may come from. All of it is passed in, so that tests bring their own.
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
    check::check(&tree, &mut problems);
    let settings = show::settings(&tree);
    let config = read::config(&tree, sources, file, settings, &mut problems);
    if problems.is_empty() { Ok(config) } else { Err(problems.into_error()) }
}

/// Reads the one store of a configuration, for an application that brings transports of its own: routes are left out.
pub fn load_store(sources: &Sources) -> Result<StoreConfig, ConfigError> {
    let mut problems = Problems::default();
    let (mut tree, _) = complete(sources, &mut problems)?;
    tree.0.retain(|entry| entry.name != "route");
    check::check(&tree, &mut problems);
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
        Some(preset) => parse::preset(preset, &sources.env, problems),
        None => Table::default(),
    };
    let mut file = None;
    if let Some((path, text)) = find::find(sources)? {
        match parse::file(&path, &text, &sources.env, problems) {
            Some(upper) => merge::over(&mut tree, upper),
            None => return Err(std::mem::take(problems).into_error()),
        }
        file = Some(path);
    }
    layer::environment(&mut tree, &sources.env, problems);
    layer::flags(&mut tree, &sources.flags, problems);
    layer::shared(&mut tree);
    layer::defaults(&mut tree);
    Ok((tree, file))
}
