//! Finds the program under test, and builds it when it is missing or older than its sources.
//!
//! Cargo builds the binaries of other packages only with the whole workspace; a test of this package alone does it here, from
//! the same parts: after `cargo test --workspace` there is nothing to do. `XTASK_BUILT` says that it was built just now.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `postroom` of the same profile as this test.
pub fn postroom() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.ancestors().nth(2).unwrap();
        let program = folder.join("postroom");
        if std::env::var_os("XTASK_BUILT").is_some() {
            return program;
        }
        // Several test programs may start at once; one of them builds.
        let lock = File::create(folder.join("postroom-e2e.lock")).unwrap();
        lock.lock().unwrap();
        build(folder);
        program
    })
}

/// The folder that builds go to; what takes long to make can be kept there.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

fn build(folder: &Path) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // With a test, cargo chooses the features of dependencies as `cargo test` does, and with them the same builds.
    build.args(["build", "--quiet", "--workspace", "--bin", "postroom", "--test", "cli", "--profile", profile]);
    // What cargo tells a test of its package would make it build crates anew that ask for it.
    for (name, _) in std::env::vars_os() {
        let told = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
        if name.to_str().is_some_and(|name| told.iter().any(|prefix| name.starts_with(prefix))) {
            build.env_remove(name);
        }
    }
    build.arg("--target-dir").arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().unwrap().success(), "postroom cannot be built");
}
