//! The programs of `docs/languages.md` do what the page says, each in a fresh database.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read or run fails the test")]

mod page;
mod programs;
mod psql;

use std::path::PathBuf;
use std::process::Command;

/// Where the programs are.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/languages")
}

/// Runs a program that must be there and succeed; what it printed.
fn run(command: &mut Command) -> String {
    let program = command.get_program().display().to_string();
    let done = command.output().unwrap_or_else(|e| panic!("{program}: {e}: `./run test` installs what is missing"));
    let (said, complained) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{program}: {}\n{said}\n{complained}", done.status);
    said
}
