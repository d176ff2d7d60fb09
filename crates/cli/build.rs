//! Names the commit that the program is built from, for `postroom version`. A build from a tarball has none.

#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=POSTROOM_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("POSTROOM_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(of_repository).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=BUILD_COMMIT={commit}");
}

fn of_repository() -> Option<String> {
    // The sources may have been unpacked in the repository of something else.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // A commit moves the branch that HEAD names; a checkout changes HEAD itself.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name]);
        // Cargo would run this again and again for a file that is not there.
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Returns what git says, if there is a git and a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(said).filter(|said| !said.is_empty())
}
