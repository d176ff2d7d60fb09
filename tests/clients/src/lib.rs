//! What the tests of the client packages share: a shop's database, a real relay beside it, and copies of the packages.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what cannot be made or read fails the test"
)]

mod cache;
mod shop;

pub use cache::cached;
pub use shop::Shop;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the packages.
pub fn clients() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// Runs a program that must be there and succeed; what it printed.
pub fn run(command: &mut Command) -> String {
    let program = command.get_program().display().to_string();
    let done = command.output().unwrap_or_else(|e| panic!("{program}: {e}: `./run test` installs what is missing"));
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let arguments: Vec<_> = command.get_args().collect(); // without its environment, where a token is
    assert!(done.status.success(), "{program} {arguments:?}: {}\n{said}\n{complained}", done.status);
    said.into_owned()
}

/// Copies a folder without what builds of it leave behind: each test builds in a copy of its own.
pub(crate) fn copy(from: &Path, to: &Path) {
    const BUILT: [&str; 7] = ["node_modules", "dist", "target", "build", "__pycache__", ".pytest_cache", ".mypy_cache"];
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if BUILT.iter().any(|built| entry.file_name() == *built) {
            continue;
        }
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
