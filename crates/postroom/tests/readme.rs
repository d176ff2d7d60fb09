//! The README's program is the example, at most 25 lines, and prints what the README says.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::process::Command;

const README: &str = include_str!("../../../README.md");
const EXAMPLE: &str = include_str!("../examples/readme.rs");

/// The README's first block of this language.
fn block(language: &str) -> &'static str {
    let start = format!("```{language}\n");
    let from = README.find(&start).expect("the block is there") + start.len();
    let length = README[from..].find("```").expect("the block ends");
    &README[from..from + length]
}

/// The example below its documentation.
fn program() -> &'static str {
    EXAMPLE.split_once("\n\n").expect("its documentation comes first").1
}

#[test]
fn the_program_of_the_readme_is_the_example() {
    assert_eq!(block("rust"), program());
    assert!(program().lines().count() <= 25, "{} lines", program().lines().count());
}

#[test]
fn it_prints_what_the_readme_says() {
    let example = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../debug/examples/readme");
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(example).current_dir(folder.path()).output().expect("cargo test builds examples");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), block("text"));
}
