//! `postroom version`: what a bug report begins with.

use std::collections::BTreeMap;

use postroom_server::stores::SCHEMA_VERSIONS;
use serde::Serialize;

use crate::app::App;
use crate::exit::{Exit, Outcome};

/// Features of the build, and whether this one has them.
const FEATURES: &[(&str, bool)] = &[
    ("postgres", cfg!(feature = "postgres")),
    ("kafka", cfg!(feature = "kafka")),
    ("rabbitmq", cfg!(feature = "rabbitmq")),
    ("nats", cfg!(feature = "nats")),
    ("redis", cfg!(feature = "redis")),
    ("webhook", cfg!(feature = "webhook")),
    ("file", cfg!(feature = "file")),
    ("exec", cfg!(feature = "exec")),
    ("http", cfg!(feature = "http")),
    ("adopted", cfg!(feature = "adopted")),
    ("contracts", cfg!(feature = "contracts")),
    ("otlp", cfg!(feature = "otlp")),
    ("top", cfg!(feature = "top")),
    ("support", cfg!(feature = "support")),
    ("manual", cfg!(feature = "manual")),
    ("mimalloc", cfg!(feature = "mimalloc")),
];

/// The program, as it was built.
#[derive(Debug, Serialize)]
struct Version {
    #[serde(rename = "version")]
    number: &'static str,
    /// `unknown` if it was not built from a git repository.
    commit: &'static str,
    os: &'static str,
    arch: &'static str,
    features: Vec<&'static str>,
    /// Newest schema version of each kind of store; older ones are migrated.
    schema_versions: BTreeMap<&'static str, i64>,
}

pub(crate) fn run(app: &App) -> Outcome {
    let version = Version {
        number: env!("CARGO_PKG_VERSION"),
        commit: env!("BUILD_COMMIT"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        features: FEATURES.iter().filter(|(_, here)| *here).map(|(name, _)| *name).collect(),
        schema_versions: SCHEMA_VERSIONS.iter().copied().collect(),
    };
    app.global.output.one(&version, || render(&version))?;
    Ok(Exit::Done)
}

fn render(version: &Version) -> String {
    let schemas: Vec<String> = SCHEMA_VERSIONS.iter().map(|(store, newest)| format!("{store} 1 to {newest}")).collect();
    format!(
        "postroom {} ({} {})\ncommit    {}\nfeatures  {}\nschemas   {}",
        version.number,
        version.os,
        version.arch,
        version.commit,
        version.features.join(" "),
        schemas.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_of_the_program_is_listed() {
        let manifest = include_str!("../../Cargo.toml");
        let (_, rest) = manifest.split_once("\ndefault = [\n").unwrap();
        let (default, _) = rest.split_once("\n]").unwrap();
        let names: Vec<&str> = default.lines().map(|line| line.trim().trim_matches(['"', ','])).collect();
        assert_eq!(FEATURES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    }
}
