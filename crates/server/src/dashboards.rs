//! Dashboards for Grafana and rules for Prometheus, made from the names in [`postroom_core::metrics`].

mod alerts;
mod grafana;

pub use alerts::{ALERTS, Alert, Severity};

/// One file to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub file: &'static str,
    /// What is in it.
    pub text: String,
}

/// All files.
pub fn export() -> Vec<Export> {
    let mut files = vec![Export { file: "postroom-rules.yml", text: alerts::rules() }];
    files.extend(grafana::dashboards());
    files
}

/// The alerts as a page shows them.
pub fn page() -> String {
    alerts::page()
}

/// Every query of every panel, for tests that run them.
pub fn queries() -> Vec<String> {
    grafana::queries()
}
