//! Every way to get the file wrong that we could think of, with the whole text people see.
//!
//! Add a file to `bad/`, run with `INSTA_UPDATE=always`, and read the snapshot before you commit it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::path::Path;

use postroom_server::config::{Sources, load};

/// With everything; without, some of these files have another mistake.
#[cfg(all(feature = "adopted", feature = "contracts", feature = "http", feature = "otlp", feature = "postgres"))]
#[test]
fn each_bad_file_is_refused_with_its_own_words() {
    check("tests/bad", 40);
}

/// `cargo test --package postroom-server --no-default-features`
#[cfg(not(any(feature = "adopted", feature = "contracts", feature = "http", feature = "otlp", feature = "postgres")))]
#[test]
fn a_build_names_the_feature_it_lacks() {
    check("tests/bad_without_features", 4);
}

fn check(folder: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert!(files.len() >= least, "only {} files in {}", files.len(), folder.display());
    for file in files {
        let sources = Sources { file: Some(file.clone().into()), cwd: folder.clone(), ..Sources::default() };
        let error = load(&sources).expect_err(&format!("{} was accepted", file.display()));
        let text = error.to_string();
        assert!(!text.contains("canary"), "{} shows a password", file.display());
        assert!(error.problems.iter().all(|p| p.line.is_some() && p.column.is_some()), "no place: {text}");
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(file.to_str().unwrap().trim_end_matches(".toml"), text);
        });
    }
}
