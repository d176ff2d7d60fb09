//! Every way to get the file wrong that we could think of, with the whole text people see.
//!
//! Cases stand in `bad/*.txt`: `== name`, a file, `----`, the message. `UPDATE=1` rewrites the messages: read them in the diff
//! before you commit them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use postroom_server::config::{Sources, load};
use tempfile::TempDir;

/// With everything; without, some of these files have another mistake.
#[cfg(all(feature = "adopted", feature = "contracts", feature = "http", feature = "otlp", feature = "postgres"))]
#[test]
fn each_bad_file_is_refused_with_its_own_words() {
    check(&pages(), 160);
}

/// `cargo test --package postroom-server --no-default-features`
#[cfg(not(any(feature = "adopted", feature = "contracts", feature = "http", feature = "otlp", feature = "postgres")))]
#[test]
fn a_build_names_the_feature_it_lacks() {
    check(&[tests().join("bad_without_features.txt")], 4);
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Lists the pages of cases for a build with everything.
#[allow(dead_code, reason = "a build without features has a page of its own")]
pub(crate) fn pages() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(tests().join("bad")).unwrap();
    let mut pages: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

/// One file that nobody accepts, and what is said of it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) file: String,
    expected: String,
}

impl Case {
    /// Writes the case as the page has it.
    fn page(&self, message: &str) -> String {
        format!("== {}\n{}----\n{message}\n", self.name, self.file)
    }
}

/// Reads the cases of a page.
pub(crate) fn cases(page: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(page).unwrap().replace("\r\n", "\n");
    let cases = text.strip_prefix("== ").unwrap_or_else(|| panic!("{} begins with no `== name`", page.display()));
    let case = |text: &str| {
        let (head, expected) = text.split_once("\n----\n").unwrap_or((text.trim_end(), ""));
        let (name, file) = head.split_once('\n').unwrap_or((head, ""));
        Case { name: name.to_owned(), file: format!("{file}\n"), expected: expected.trim_end().to_owned() }
    };
    cases.split("\n== ").map(case).collect()
}

/// Compares what is said of each case with its page, or writes it there when asked to.
fn check(pages: &[PathBuf], least: usize) {
    let folder = TempDir::new().unwrap();
    let (mut count, mut differences) = (0, Vec::new());
    for page in pages {
        let mut fresh = Vec::new();
        for case in cases(page) {
            let message = message(folder.path(), &case);
            if message != case.expected {
                differences.push(format!("== {}\n{}", case.name, diff(&case.expected, &message)));
            }
            fresh.push(case.page(&message));
        }
        count += fresh.len();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(page, fresh.join("\n")).unwrap();
        }
    }
    assert!(count >= least, "only {count} cases in {pages:?}");
    let updated = std::env::var_os("UPDATE").is_some();
    assert!(
        updated || differences.is_empty(),
        "expected (-), said (+); UPDATE=1 rewrites\n\n{}",
        differences.join("\n")
    );
}

/// Loads the file of a case under the case's name.
fn message(folder: &Path, case: &Case) -> String {
    let file = format!("{}.toml", case.name);
    std::fs::write(folder.join(&file), &case.file).unwrap();
    let sources = Sources { file: Some(file.clone().into()), cwd: folder.to_owned(), ..Sources::default() };
    let error = load(&sources).expect_err(&format!("{file} was accepted"));
    let text = error.to_string();
    assert!(!text.contains("canary"), "{file} shows a password");
    assert!(error.problems.iter().all(|p| p.line.is_some() && p.column.is_some()), "no place: {text}");
    text
}

/// Shows the lines that differ between those that agree at the beginning and at the end.
fn diff(expected: &str, message: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), message.lines().collect());
    let begin = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let end = old[begin..].iter().rev().zip(new[begin..].iter().rev()).take_while(|(old, new)| old == new).count();
    let parts = [
        (' ', &old[..begin]),
        ('-', &old[begin..old.len() - end]),
        ('+', &new[begin..new.len() - end]),
        (' ', &old[old.len() - end..]),
    ];
    let lines = parts.iter().flat_map(|(mark, lines)| lines.iter().map(move |line| format!("{mark} {line}\n")));
    lines.collect::<Vec<_>>().concat()
}
