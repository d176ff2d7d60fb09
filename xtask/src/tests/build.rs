//! Builds the tests and reads from cargo's messages which programs came of it.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::Wanted;
use super::signals::Children;

/// A program with tests in it.
#[derive(Debug)]
pub(super) struct Binary {
    /// Its package.
    pub(super) package: String,
    /// The library, program or test it is made of.
    pub(super) target: String,
    /// Whether it is a file of `tests/`, not of `src/`.
    pub(super) integration: bool,
    pub(super) program: PathBuf,
    /// The package's folder, where cargo would run it.
    pub(super) folder: PathBuf,
}

/// A message of cargo's about something it made. Other messages lack what is asked for.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all tests that are wanted; nothing when they do not build, which cargo has said.
pub(super) fn build(wanted: &Wanted, children: &Children) -> io::Result<Option<Vec<Binary>>> {
    let mut cargo = crate::cargo_command();
    cargo.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(wanted.selection());
    let mut child = children.spawn(cargo.stdout(Stdio::piped()))?;
    let mut binaries = Vec::new();
    if let Some(messages) = child.stdout.take() {
        for line in BufReader::new(messages).lines() {
            let Ok(made) = serde_json::from_str::<Artifact>(&line?) else { continue };
            if let (Some(program), true, Some(folder)) =
                (made.executable, made.profile.test, made.manifest_path.parent())
            {
                let integration = made.target.kind.iter().any(|kind| kind == "test");
                binaries.push(Binary {
                    package: package(folder)?,
                    target: made.target.name,
                    integration,
                    program,
                    folder: folder.to_owned(),
                });
            }
        }
    }
    let built = children.wait(child)?.success();
    Ok(built.then_some(binaries))
}

/// All packages of the workspace with their folders, as cargo knows them.
pub(super) fn packages() -> io::Result<Vec<(String, PathBuf)>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Member>,
    }
    #[derive(Deserialize)]
    struct Member {
        name: String,
        manifest_path: PathBuf,
    }
    let output = Command::new(crate::cargo_command().get_program())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let folder = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    Ok(metadata.packages.into_iter().map(|member| (member.name, folder(&member.manifest_path))).collect())
}

/// The name in a package's manifest.
fn package(folder: &Path) -> io::Result<String> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml"))?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.map(str::to_owned).ok_or_else(|| io::Error::other(format!("{} names no package", folder.display())))
}
