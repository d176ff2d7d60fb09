//! The shop prints what its README says.

use std::process::Command;

#[test]
fn it_prints_what_its_readme_says() {
    let readme = include_str!("../README.md");
    let expected = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_shop")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
