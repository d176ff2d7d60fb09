//! A case that is in no list would run nowhere.

use std::fs;
use std::path::Path;

/// Folders of cases, the file of each that lists them, and files beside them that hold none.
const SUITES: &[(&str, &str, &[&str])] = &[
    ("stores", "suite.rs", &["bench.rs", "harness.rs", "mod.rs"]),
    ("mappings", "suite.rs", &["beside_log.rs", "bench.rs", "mod.rs", "sample.rs"]),
    ("transports", "mod.rs", &["harness.rs"]),
    ("subscriptions", "mod.rs", &["bench.rs", "harness.rs", "effects.rs"]),
];

#[test]
fn every_case_of_a_suite_is_in_its_list() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (folder, list, others) in SUITES {
        let listed = fs::read_to_string(source.join(folder).join(list)).unwrap();
        let mut cases = 0;
        for file in fs::read_dir(source.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if name == *list || others.contains(&name) {
                continue;
            }
            for line in fs::read_to_string(&file).unwrap().lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
                let case = rest.split(['<', '(']).next().unwrap();
                let is_there =
                    listed.lines().any(|line| line.split([' ', '{', '}', ',', ';', ':']).any(|word| word == case));
                assert!(is_there, "{folder}/{name}: {case} is not in {folder}/{list}");
                cases += 1;
            }
        }
        assert!(cases > 10, "{folder}: only {cases} cases were found");
    }
}
