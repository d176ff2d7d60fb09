//! Refuses a route that would discard the rows of an adopted table: stdout and noop keep nothing, and the rows would be marked
//! as delivered. A table that is empty now has rows later.
//!
//! A log of our own keeps its events for a replay; the rows of an adopted table are its application's.

use crate::config::{Config, ConfigError, Problem, RouteConfig, StoreConfig};
use crate::relay::RunOptions;
use crate::run_error::RunError;
use crate::stores;

/// Maximum number of pending rows that are counted.
const COUNTED_MAX: u64 = 10_000;

/// Fails if one of the routes would discard rows and nobody has allowed it.
pub(crate) async fn check(config: &Config, routes: &[&RouteConfig], options: &RunOptions) -> Result<(), RunError> {
    let mut problems = Vec::new();
    for route in routes.iter().filter(|route| route.to.discards() && !route.allow_discard && !options.allow_discard) {
        for store in config.stores.iter().filter(|store| store.adopts() && route.stores.contains(&store.name)) {
            let pending = stores::pending_rows(store, config.limits, COUNTED_MAX).await.map_err(|error| {
                if error.is_transient() {
                    RunError::Unreachable(vec![(store.name.clone(), error)])
                } else {
                    RunError::Refused { store: store.name.clone(), error }
                }
            })?;
            problems.extend(pending.map(|(table, rows)| problem(route, store, &table, rows)));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(RunError::Config(ConfigError { problems })) }
}

fn problem(route: &RouteConfig, store: &StoreConfig, table: &str, rows: u64) -> Problem {
    let (name, to) = (&route.definition.name, route.to.name());
    let rows = match rows {
        0 => "rows".to_owned(),
        1 => "at least 1 pending row".to_owned(),
        rows => format!("at least {rows} pending rows"),
    };
    let message = format!(
        "route `{name}` goes to {to}, which keeps no events: {rows} of table {table} in store `{}` would count as delivered",
        store.name
    );
    let hint = "set another destination in `to`; to discard the rows, add --yes, or allow_discard = true to the route";
    Problem::new(message).hint(hint)
}
