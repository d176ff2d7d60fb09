//! Dashboards for Grafana and rules for Prometheus, made from the names in [`postroom_core::metrics`].

mod alerts;
mod grafana;

pub use alerts::{ALERTS, Alert, Severity};

/// File to import into Grafana or Prometheus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Name of the file.
    pub file: &'static str,
    /// Text of the file.
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
