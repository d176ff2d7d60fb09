//! `cargo xtask seeds`: the tests that `docs/seeds.md` names, by the system that they are about.
//!
//! A line of the page says what a system's document names, and which tests show it. Here each of them is looked up in the sources:
//! it must exist, and one of a line must run the system's preset, or its example, unless the line says that it is beside the preset.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::tests;

const PAGE: &str = "docs/seeds.md";
const FOLDERS: &[&str] = &["crates", "stores", "transports", "tools", "testkit", "tests", "examples"];
/// What a line says whose tests run without the preset.
const BESIDE: &str = "(beside the preset";

/// A system of the page.
struct System {
    preset: String,
    lines: Vec<Line>,
}

/// What its document names.
struct Line {
    text: String,
    tests: Vec<String>,
}

/// A function of the sources.
struct Function {
    file: PathBuf,
    body: String,
}

type Functions = BTreeMap<String, Vec<Function>>;

/// Checks the page, prints its table, and runs the tests of these systems, or of all.
pub(crate) fn run(names: &[&str]) -> io::Result<bool> {
    let (systems, functions) = (page()?, functions()?);
    if let Some(unknown) = names.iter().find(|name| !systems.iter().any(|system| system.preset == **name)) {
        let known: Vec<&str> = systems.iter().map(|system| system.preset.as_str()).collect();
        return Err(io::Error::other(format!("there is no system {unknown:?}: they are {}", known.join(", "))));
    }
    let problems = problems(&systems, &functions);
    if !problems.is_empty() {
        return Err(io::Error::other(problems.join("\n")));
    }
    let chosen = || systems.iter().filter(|system| names.is_empty() || names.contains(&system.preset.as_str()));
    println!("{:<14}{:>6}{:>7}{:>21}", "system", "lines", "tests", "beside the preset");
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for system in chosen() {
        let own: BTreeSet<&str> = system.lines.iter().flat_map(|line| &line.tests).map(String::as_str).collect();
        let beside = system.lines.iter().filter(|line| line.text.contains(BESIDE)).count();
        println!("{:<14}{:>6}{:>7}{beside:>21}", system.preset, system.lines.len(), own.len());
        wanted.extend(own);
    }
    // By name among all: some are cases of a suite, and run where the suite does.
    let args: Vec<&str> = std::iter::once("--").chain(wanted).collect();
    tests::run(&args)
}

/// What is wrong with the page, a line each.
fn problems(systems: &[System], functions: &Functions) -> Vec<String> {
    let mut problems = Vec::new();
    for system in systems {
        for line in &system.lines {
            let of = |what: String| format!("{PAGE}, {}: {what}: {}", system.preset, line.text);
            let missing = line.tests.iter().filter(|test| !functions.contains_key(*test));
            problems.extend(missing.map(|test| of(format!("there is no test `{test}`"))));
            let touches = |test: &String| {
                functions.get(test).into_iter().flatten().any(|test| test.touches(&system.preset, functions))
            };
            match (line.tests.iter().any(touches), line.text.contains(BESIDE)) {
                _ if line.tests.is_empty() => problems.push(of("names no test".to_owned())),
                (false, false) => problems.push(of(format!("none of its tests runs the preset {}", system.preset))),
                (true, true) => problems.push(of("is not beside the preset".to_owned())),
                _ => {}
            }
        }
    }
    problems
}

impl Function {
    /// Whether it is about the system: by its file, by what it says, or by a helper of its file that it calls.
    fn touches(&self, preset: &str, functions: &Functions) -> bool {
        let is_named = |part: &std::ffi::OsStr| Path::new(part).file_stem().is_some_and(|stem| stem == preset);
        self.file.iter().any(is_named) || self.says(preset) || {
            let calls = self.body.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect::<BTreeSet<_>>();
            let helpers = calls.into_iter().filter_map(|name| functions.get(name)).flatten();
            helpers.filter(|helper| helper.file == self.file).any(|helper| helper.says(preset))
        }
    }

    fn says(&self, preset: &str) -> bool {
        // The type of a system's own bench is called as the system is: `Payments::new()`.
        let bench = preset.replace("corebilling", "billing");
        let body = self.body.to_ascii_lowercase();
        body.contains(&format!("\"{preset}\"")) || body.contains(&format!("{bench}::"))
    }
}

/// Reads the page.
fn page() -> io::Result<Vec<System>> {
    let text = fs::read_to_string(root().join(PAGE))?;
    let mut systems: Vec<System> = Vec::new();
    for line in text.lines() {
        if let Some(preset) = line.strip_prefix("## ").and_then(|title| title.split('`').nth(1)) {
            systems.push(System { preset: preset.to_owned(), lines: Vec::new() });
        } else if let (Some(rest), Some(system)) = (line.strip_prefix("- [x] "), systems.last_mut()) {
            let proof = rest.rsplit_once(" — ").map_or("", |(_, proof)| proof);
            let named = proof.split(" (").next().unwrap_or_default().split('`').skip(1).step_by(2);
            system.lines.push(Line { text: rest.to_owned(), tests: named.map(str::to_owned).collect() });
        }
    }
    Ok(systems)
}

/// All functions of the sources by their names.
fn functions() -> io::Result<Functions> {
    let mut found = Functions::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut found)?;
    }
    Ok(found)
}

fn collect(folder: &Path, found: &mut Functions) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                collect(&path, found)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = fs::read_to_string(&path)?;
            for part in source.split("fn ").skip(1) {
                let name = part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let function = Function { file: path.clone(), body: part.to_owned() };
                found.entry(name).or_default().push(function);
            }
        }
    }
    Ok(())
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests_of_the_page {
    use super::*;

    #[test]
    fn every_line_names_tests_that_exist_and_one_that_runs_its_systems_preset() {
        let systems = page().unwrap();
        assert_eq!(systems.len(), 5);
        assert!(systems.iter().map(|system| system.lines.len()).sum::<usize>() >= 172);
        assert_eq!(problems(&systems, &functions().unwrap()), [""; 0]);
    }

    #[test]
    fn a_test_that_does_not_exist_or_is_about_something_else_is_refused() {
        let line = |tests: &[&str], text: &str| Line {
            text: text.to_owned(),
            tests: tests.iter().map(|&test| test.to_owned()).collect(),
        };
        let function = |file: &str, body: &str| vec![Function { file: file.into(), body: body.to_owned() }];
        let functions = Functions::from([
            ("by_file".to_owned(), function("tests/presets/tests/m4.rs", "")),
            ("by_word".to_owned(), function("tests/presets/tests/crowd.rs", "of(\"m4\")")),
            ("by_helper".to_owned(), function("tests/presets/tests/crowd.rs", "let system = by_word();")),
            ("of_another".to_owned(), function("tests/presets/tests/crowd.rs", "of(\"holdco\")")),
            ("elsewhere".to_owned(), function("crates/core/src/retry.rs", "by_word()")),
        ]);
        let of = |tests: &[&str], text: &str| {
            let systems = [System { preset: "m4".to_owned(), lines: vec![line(tests, text)] }];
            problems(&systems, &functions).concat()
        };
        for good in ["by_file", "by_word", "by_helper"] {
            assert_eq!(of(&["elsewhere", good], "L7: a"), "", "{good}");
        }
        assert_eq!(of(&["elsewhere"], "L7: a (beside the preset: Rust)"), "");
        for (tests, text, why) in [
            (&["nobody", "by_file"][..], "L7: a", "there is no test `nobody`"),
            (&["of_another", "elsewhere"], "L7: a", "none of its tests runs the preset m4"),
            (&["by_word"], "L7: a (beside the preset)", "is not beside the preset"),
            (&[], "L7: a", "names no test"),
        ] {
            assert!(of(tests, text).contains(why), "{why}: {}", of(tests, text));
        }
    }
}
