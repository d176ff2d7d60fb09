//! What every command starts from: its global options, the configuration, an open store.

use std::sync::Arc;

use postroom_core::view::RouteDetail;
use postroom_core::{Desk, RouteDefinition, Store};
use postroom_server::config::{self, Config, ConfigError, Sources, StoreConfig};
use postroom_server::{status, stores};

use crate::args::{Global, StoreArg};
use crate::exit::{Exit, Failed, Problem};
use crate::output::Format;
use crate::suggest;

/// One run of the program.
#[derive(Debug)]
pub(crate) struct App {
    /// The options every command takes.
    pub(crate) global: Global,
}

impl App {
    /// The configuration, or everything that is wrong with it.
    pub(crate) fn config(&self) -> Result<Config, Failed> {
        Ok(self.load(Vec::new())?)
    }

    /// The same with what the command's own flags say: keys and values.
    pub(crate) fn load(&self, flags: Vec<(String, String)>) -> Result<Config, ConfigError> {
        config::load(&Sources::of_process(self.global.config.clone(), self.global.preset.clone(), flags))
    }

    /// Whether a person reads the output.
    pub(crate) fn is_table(&self) -> bool {
        self.global.output == Format::Table
    }

    /// Opens the store that is meant.
    pub(crate) async fn open(&self, config: &Config, store: &StoreArg) -> Result<Opened, Failed> {
        open(config, meant(config, store)?).await
    }
}

/// The store that is meant.
pub(crate) fn meant<'c>(config: &'c Config, store: &StoreArg) -> Result<&'c StoreConfig, Failed> {
    Ok(config.store(store.store.as_deref())?)
}

/// An open store.
pub(crate) struct Opened {
    store: Arc<dyn Store>,
    configured: Vec<RouteDefinition>,
}

impl Opened {
    /// What commands ask.
    pub(crate) fn desk(&self) -> Arc<dyn Desk> {
        self.store.desk()
    }

    /// A registered route, or an error that names the nearest.
    pub(crate) async fn route(&self, name: &str) -> Result<RouteDetail, Failed> {
        let routes = self.desk().routes().await?;
        let mut known: Vec<String> = routes.iter().map(|r| r.status.route.clone()).collect();
        if let Some(route) = routes.into_iter().find(|r| r.status.route == name) {
            return Ok(route);
        }
        if self.configured.iter().any(|d| d.name == name) {
            let message =
                format!("route {name:?} is configured, but not registered in store {} yet", self.store.name());
            return Err(Failed::new(Exit::Failed, message, "run `postroom store migrate up`, or start a relay"));
        }
        known.extend(self.configured.iter().map(|d| d.name.clone()));
        Err(suggest::unknown("route", name, &known, "list what there is: `postroom route ls`"))
    }

    /// Refuses a route that is not there, where one is given as a filter: an empty list would look like good news.
    pub(crate) async fn check_route(&self, name: Option<&str>) -> Result<(), Failed> {
        match name {
            Some(name) => self.route(name).await.map(|_| ()),
            None => Ok(()),
        }
    }
}

/// Opens a store.
pub(crate) async fn open(config: &Config, store: &StoreConfig) -> Result<Opened, Failed> {
    let opened = stores::open(store, config.limits).await?;
    Ok(Opened { store: opened, configured: status::routes_of(config, &store.name) })
}

impl From<config::Problem> for Problem {
    fn from(problem: config::Problem) -> Self {
        let hint = problem.hint.clone().unwrap_or_default();
        // Place, message and the line with its caret; the hint has a line of its own.
        let message = config::Problem { hint: None, ..problem }.to_string();
        Self { message, hint }
    }
}

impl From<ConfigError> for Failed {
    fn from(error: ConfigError) -> Self {
        Self::several(Exit::Usage, error.problems.into_iter().map(Into::into).collect())
    }
}
