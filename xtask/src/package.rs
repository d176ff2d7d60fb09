//! Packages of what users depend on, made as for a registry and uploaded nowhere.
//!
//! Proves: every published crate says what a registry asks for, names a version of each of its siblings, can be packed
//! in an order in which each finds its siblings packed before, and has every file it includes in its package; and the
//! stated `rust-version` is what the dependencies need. Does not build the packages: their sources are those that the
//! tests have built. Needs no network.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::cargo_command;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    source: Option<String>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    rust_version: Option<String>,
    /// Where it may be published; `None` is anywhere, an empty list nowhere.
    publish: Option<Vec<String>>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Packs everything that is published and checks it.
pub(crate) fn check() -> io::Result<bool> {
    let metadata = metadata()?;
    let published: Vec<&Package> =
        metadata.packages.iter().filter(|package| package.source.is_none() && package.publish.is_none()).collect();
    let mut problems = Vec::new();
    for package in &published {
        problems.extend(missing(package));
        problems.extend(not_included(package)?);
    }
    problems.extend(rust_version(&metadata, &published));
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    let mut pack = cargo_command();
    pack.args(["package", "--offline", "--no-verify", "--allow-dirty", "--quiet"]);
    for package in &published {
        pack.args(["--package", &package.name]);
    }
    let packed = pack.status()?.success();
    if packed && problems.is_empty() {
        println!("{} packages are in target/package", published.len());
    }
    Ok(packed && problems.is_empty())
}

fn metadata() -> io::Result<Metadata> {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = ["metadata", "--offline", "--format-version", "1", "--filter-platform", &host];
    let output = cargo_command().args(args).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What a registry asks for and the package does not say.
fn missing(package: &Package) -> Vec<String> {
    let said = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("repository", package.repository.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    said.iter().filter(|(_, there)| !there).map(|(field, _)| format!("{} has no {field}", package.name)).collect()
}

/// Files that the code includes and the package does not have. What only documentation tests include stays behind.
fn not_included(package: &Package) -> io::Result<Vec<String>> {
    let folder = package.manifest_path.parent().unwrap_or(Path::new("."));
    let args = ["package", "--list", "--offline", "--allow-dirty", "--package", &package.name];
    let output = cargo_command().args(args).output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let files: BTreeSet<&Path> = listed.lines().map(Path::new).collect();
    let mut problems = Vec::new();
    for source in files.iter().filter(|file| file.starts_with("src") && file.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(folder.join(source))?;
        for included in text.lines().filter(|line| !line.starts_with("#[doc")).filter_map(included) {
            let place = normal(&source.parent().unwrap_or(Path::new("")).join(included));
            if !files.contains(place.as_path()) {
                problems.push(format!(
                    "{}: {} includes {included}, which is not packed",
                    package.name,
                    source.display()
                ));
            }
        }
    }
    Ok(problems)
}

/// The file that a line includes.
fn included(line: &str) -> Option<&str> {
    let after = line.split_once("include_str!(\"").or_else(|| line.split_once("include_bytes!(\""))?.1;
    Some(after.split_once('"')?.0)
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if normal.pop() => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Whether the stated `rust-version` is the newest that a dependency asks for, built or building, of any feature.
fn rust_version(metadata: &Metadata, published: &[&Package]) -> Option<String> {
    let packages: BTreeMap<&str, &Package> = metadata.packages.iter().map(|p| (p.id.as_str(), p)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut next: Vec<&str> = published.iter().map(|package| package.id.as_str()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = next.pop() {
        if seen.insert(id) {
            let needed = |d: &&Dependency| d.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
            let deps = nodes.get(id).map_or(&[][..], |node| &node.deps);
            next.extend(deps.iter().filter(needed).map(|dependency| dependency.pkg.as_str()));
        }
    }
    let others = seen.iter().filter_map(|id| packages.get(id)).filter(|package| package.source.is_some());
    let newest = others.max_by_key(|package| numbers(package.rust_version.as_deref()))?;
    let stated = published.first()?.rust_version.as_deref();
    println!(
        "rust-version {}: of {} dependencies {} {} needs {}",
        stated.unwrap_or("(none)"),
        seen.len() - published.len(),
        newest.name,
        newest.version,
        newest.rust_version.as_deref().unwrap_or("(none)"),
    );
    let differ = numbers(stated)[..2] != numbers(newest.rust_version.as_deref())[..2];
    differ.then(|| "the stated rust-version is not what the dependencies need".to_owned())
}

fn numbers(version: Option<&str>) -> [u32; 3] {
    let mut parts = version.unwrap_or_default().split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}
