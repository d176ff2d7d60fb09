//! Why a relay does not run.

use std::fmt;

use postroom_core::StoreError;
use postroom_relay::RelayError;

use crate::config::ConfigError;

/// Reason why a relay did not start, or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// What was asked for is not in the configuration.
    Config(ConfigError),
    /// No store answered in time; each with its last error.
    Unreachable(Vec<(String, StoreError)>),
    /// A store answered that it will not do: its schema, a missing right, not a store at all.
    Refused {
        /// The store.
        store: String,
        /// What it said.
        error: StoreError,
    },
    /// A route cannot be served.
    Relay(RelayError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Unreachable(stores) => {
                let said: Vec<_> = stores.iter().map(|(store, error)| format!("store {store:?}: {error}")).collect();
                write!(f, "no store can be reached: {}", said.join("; "))
            }
            Self::Refused { store, error } => write!(f, "store {store:?} cannot be used: {error}"),
            Self::Relay(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(_) => None,
            Self::Unreachable(stores) => stores.first()?.1.source(),
            Self::Refused { error, .. } => error.source(),
            Self::Relay(error) => error.source(),
        }
    }
}
