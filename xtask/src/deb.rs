//! Builds the program and makes a Debian package of it. What is in the package is `deploy/debian/build.sh`'s.

use std::path::PathBuf;
use std::process::Command;

use crate::{cargo, said};

/// Makes the package in `target/debian`.
pub(crate) fn package(profile: &str) -> bool {
    let folder = if profile == "dev" { "debug" } else { profile };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let build = ["build", "--quiet", "--package", "postroom-cli", "--bin", "postroom", "--profile", profile];
    let mut make = Command::new("deploy/debian/build.sh");
    make.arg(target.join(folder).join("postroom")).arg(target.join("debian"));
    cargo(&build) && said(make.status().map(|status| status.success()))
}
