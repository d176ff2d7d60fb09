//! Reads the configuration: flags over environment over file over defaults, every problem named with its place.
//!
//! [`load`] goes through the files of this folder in order: `find` the file, `parse` it, `layer` environment, flags and
//! defaults around it, `check` it against `keys`, `read` what it means, `show` what is in force.

mod check;
mod find;
mod init;
mod keys;
mod layer;
mod layout;
mod parse;
mod path;
mod problem;
mod read;
mod reference;
mod routes;
mod show;
mod stores;
mod transports;
mod tree;
mod typed;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use init::init;
pub use problem::{ConfigError, Problem};
pub use reference::reference;
pub use show::Setting;
pub use transports::{ExecPeer, ExecTarget, Target};
pub use tree::Origin;
pub use typed::{Config, LogConfig, LogFormat, PoolerConfig, PostgresConfig, RelayConfig, RouteConfig, StoreConfig};

use problem::Problems;
use tree::Table;

/// Where a configuration may come from. All of it is passed in, so that tests bring their own.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`; without it the file is searched.
    pub file: Option<PathBuf>,
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
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let env = std::env::vars_os().filter_map(text).collect();
        Self { file, env, flags, cwd: std::env::current_dir().unwrap_or_default() }
    }
}

/// Reads the configuration, or says everything that is wrong with it.
pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
    let mut problems = Problems::default();
    let (file, mut tree) = match find::find(sources) {
        Ok(None) => (None, Table::default()),
        Ok(Some((path, text))) => match parse::file(&path, &text, &sources.env, &mut problems) {
            Some(tree) => (Some(path), tree),
            None => return Err(problems.into_error()),
        },
        Err(error) => return Err(error),
    };
    layer::environment(&mut tree, &sources.env, &mut problems);
    layer::flags(&mut tree, &sources.flags, &mut problems);
    layer::shared(&mut tree);
    layer::defaults(&mut tree);
    check::check(&tree, &mut problems);
    let settings = show::settings(&tree);
    let config = read::config(&tree, sources, file, settings, &mut problems);
    if problems.is_empty() { Ok(config) } else { Err(problems.into_error()) }
}
