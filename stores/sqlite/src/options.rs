//! Which file, and how it is opened.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use postroom_core::{Clock, Contract, Limits};

use crate::clock::SystemClock;
use crate::gate::Gated;

/// Options of a store: its file, and its limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct SqliteOptions {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
    /// Parameters of the URL that mean nothing here.
    pub(crate) unknown: Option<String>,
    pub(crate) create: bool,
    pub(crate) limits: Limits,
    pub(crate) contract: Option<Arc<dyn Contract>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) for_admin: bool,
    pub(crate) gate: Gated,
}

impl SqliteOptions {
    /// Describes the store `name` in a file: `shop.db`, `sqlite://shop.db` or `sqlite:///var/lib/shop.db`.
    ///
    /// A URL that ends in `?mode=ro` opens the file read-only; other parameters are refused when it is opened.
    pub fn new(name: impl Into<String>, path_or_url: impl AsRef<str>) -> Self {
        let text = path_or_url.as_ref();
        let url = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
        let (path, parameters) = match url {
            Some(rest) => rest.split_once('?').map_or((rest, None), |(path, parameters)| (path, Some(parameters))),
            None => (text, None),
        };
        Self {
            name: name.into(),
            path: PathBuf::from(path),
            read_only: parameters == Some("mode=ro"),
            unknown: parameters.filter(|p| *p != "mode=ro").map(str::to_owned),
            create: false,
            limits: Limits::default(),
            contract: None,
            clock: Arc::new(SystemClock::default()),
            for_admin: false,
            gate: Gated::default(),
        }
    }

    /// Sets whether the file is created if it is missing.
    ///
    /// On, a mistyped path becomes an empty store instead of an error. Defaults to false.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets the limits of events.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the contract of events beyond the limits, checked before any write. Defaults to none.
    pub fn contract(mut self, contract: Arc<dyn Contract>) -> Self {
        self.contract = Some(contract);
        self
    }

    /// Sets the clock of leases, due times and retention; every process on the file must have the same.
    ///
    /// Defaults to the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Opens admin connections, for the API and commands while relays work: no read longer than two seconds, so that they
    /// never slow a relay.
    pub fn for_admin(mut self) -> Self {
        self.for_admin = true;
        self
    }

    /// Where the relays of this process wait, in a test.
    #[cfg(feature = "broken")]
    pub fn gate(mut self, gate: Arc<dyn crate::gate::Gate>) -> Self {
        self.gate = Gated(Some(gate));
        self
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions").field("name", &self.name).field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_a_plain_path_name_the_same_file() {
        let path = |text| SqliteOptions::new("main", text).path;
        assert_eq!(path("shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path("sqlite://shop.db"), PathBuf::from("shop.db"));
        assert_eq!(path("sqlite:///var/shop.db"), PathBuf::from("/var/shop.db"));
        let read_only = SqliteOptions::new("main", "sqlite://shop.db?mode=ro");
        assert!(read_only.read_only && read_only.unknown.is_none() && read_only.path.ends_with("shop.db"));
        let unknown = SqliteOptions::new("main", "sqlite://shop.db?mode=rwc");
        assert_eq!((unknown.path, unknown.unknown.as_deref()), (PathBuf::from("shop.db"), Some("mode=rwc")));
    }
}
