//! Finds the program under test, and builds it when it is missing or older than its sources.
//!
//! Cargo builds the binaries of other packages only with the whole workspace; a test of this package alone does it here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The `postroom` of the same profile as this test.
pub(crate) fn postroom() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.ancestors().nth(2).unwrap();
        let program = folder.join("postroom");
        // Several test programs may start at once; one of them builds.
        let lock = File::create(folder.join("postroom-e2e.lock")).unwrap();
        lock.lock().unwrap();
        if !is_fresh(&program) {
            build(folder);
        }
        program
    })
}

/// Whether it is there and none of what it was made of has changed since.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let (Some(built), Ok(made_of)) = (changed(program), fs::read_to_string(program.with_extension("d"))) else {
        return false;
    };
    let sources = made_of.split_once(": ").map_or("", |(_, sources)| sources);
    sources.split_whitespace().all(|source| changed(Path::new(source)).is_some_and(|at: SystemTime| at <= built))
}

fn build(folder: &Path) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "postroom-cli", "--bin", "postroom", "--profile", profile]);
    build.arg("--target-dir").arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().unwrap().success(), "postroom cannot be built");
}
