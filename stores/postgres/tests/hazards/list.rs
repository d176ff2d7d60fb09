//! The page about hazards names tests that are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a file of the source tree says, and those below it.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with(".git") {
                functions(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text
                .split("fn ")
                .skip(1)
                .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>());
            found.extend(names);
        }
    }
}

#[test]
fn every_hazard_has_a_line_and_every_test_named_there_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/hazards.md")).unwrap();
    let mut there = BTreeSet::new();
    functions(&root, &mut there);
    let mut rows = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| H-")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, what, tests] = cells[..] else { panic!("three columns: {line}") };
        assert!(rows.insert(number.to_owned()), "{number} stands there twice");
        assert!(!what.is_empty(), "{line}");
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || tests.contains("open:"), "{number} names no test and does not say why: {line}");
        for name in named {
            assert!(there.contains(name), "{number}: there is no test `{name}`");
        }
    }
    let wanted =
        (1..=22).chain(28..=76).chain(79..=81).chain(84..=90).chain([92, 93, 110]).map(|n| format!("H-{n:02}"));
    let missing: Vec<String> = wanted.filter(|number| !rows.contains(number)).collect();
    assert_eq!(missing, Vec::<String>::new(), "hazards without a line in docs/hazards.md");
}
