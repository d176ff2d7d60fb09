//! Context of every command: its global options, the configuration, an open store.

use std::sync::Arc;

use postroom_admin::view::RouteDetail;
use postroom_admin::{Admin, ManagedStore};
use postroom_core::{Filter, Pattern, RouteSpec};
use postroom_server::config::{self, Config, ConfigError, Sources, StoreConfig};
use postroom_server::{status, stores};

use crate::exit::{Exit, Failed, Problem};
use crate::options::{Global, StoreArg};
use crate::output::Format;
use crate::suggest;

/// Run of the program.
#[derive(Debug)]
pub(crate) struct App {
    /// Options of every command.
    pub(crate) global: Global,
}

impl App {
    /// Loads the configuration, or reports every error in it.
    pub(crate) fn config(&self) -> Result<Config, Failed> {
        Ok(self.load(Vec::new())?)
    }

    /// Loads a configuration that must have stores: without one, an empty answer would look like good news.
    pub(crate) fn config_with_stores(&self) -> Result<Config, Failed> {
        let config = self.config()?;
        config.require_stores()?;
        Ok(config)
    }

    /// Loads the configuration with keys and values from the command's own flags.
    pub(crate) fn load(&self, flags: Vec<(String, String)>) -> Result<Config, ConfigError> {
        config::load(&Sources::of_process(self.global.config.clone(), self.global.preset.clone(), flags))
    }

    /// Reports whether the output is a table for people.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.global.output, Format::Table | Format::Wide)
    }

    /// Opens the selected store.
    pub(crate) async fn open(&self, config: &Config, store: &StoreArg) -> Result<Opened, Failed> {
        open(config, meant(config, store)?).await
    }
}

/// Returns the selected store, or the only one.
pub(crate) fn meant<'c>(config: &'c Config, store: &StoreArg) -> Result<&'c StoreConfig, Failed> {
    Ok(config.store(store.store.as_deref())?)
}

/// Open store.
pub(crate) struct Opened {
    store: Arc<dyn ManagedStore>,
    configured: Vec<RouteSpec>,
}

impl Opened {
    /// Returns the admin interface of the store.
    pub(crate) fn admin(&self) -> Arc<dyn Admin> {
        self.store.admin()
    }

    /// Returns a registered route, or an error that names the nearest one.
    pub(crate) async fn route(&self, name: &str) -> Result<RouteDetail, Failed> {
        let routes = self.admin().routes().await?;
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

    /// Filters of all configured and registered routes.
    pub(crate) async fn filters(&self) -> Result<Vec<Filter>, Failed> {
        let patterns = |texts: &[String]| texts.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
        let registered = |route: &RouteDetail| Filter {
            types: patterns(&route.types),
            aggregate_type: patterns(&route.aggregate_type),
            tenant: patterns(&route.tenant),
        };
        let mut filters: Vec<Filter> = self.configured.iter().map(|route| route.filter.clone()).collect();
        filters.extend(self.admin().routes().await?.iter().map(registered));
        Ok(filters)
    }

    /// Fails if a route given as a filter does not exist: an empty list would look like good news.
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
