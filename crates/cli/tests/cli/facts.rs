//! What the documentation lists is what there is: fields of JSON, failure codes, tables and columns, links, tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read or run fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use postroom_server::codes;
use serde_json::Value;

use crate::docs::{blocks, page, root};
use crate::world::{Running, World};

#[test]
fn the_json_has_exactly_the_fields_that_the_page_shows() {
    let commands = page("docs/commands.md");
    let world = World::new();
    world.append("good", "order.placed", "order-7");
    world.append("bad", "order.bad", "order-8");
    let mut relay = Running::start({
        let mut command = world.command(&["relay", "run"]);
        command.stderr(Stdio::null());
        command
    });
    let deadline = Instant::now() + Duration::from_mins(5);
    let mut status = world.json(&["status"]);
    while status["routes"][0]["dead"] != 1 && status["routes"][1]["dead"] != 1 || status["relays"][0].is_null() {
        assert!(Instant::now() < deadline, "no dead letter: {status}");
        status = world.json(&["status"]);
    }
    for (block, printed) in [
        ("json status", status),
        ("json event-show", world.json(&["event", "show", "bad"])),
        ("json dead-ls", world.json(&["dead", "ls"])),
        ("json verify", world.json(&["verify"])),
    ] {
        let shown: Value = serde_json::from_str(&blocks(&commands, block)[0]).unwrap();
        assert_eq!(fields(&printed), fields(&shown), "{block} of docs/commands.md");
    }
    relay.signal_until_end(Signal::SIGTERM);
}

/// The paths of all fields; entries of a list stand for each other.
fn fields(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                found.insert(format!("{path}.{name}"));
                walk(value, &format!("{path}.{name}"), found);
            }),
            Value::Array(list) => list.iter().for_each(|value| walk(value, path, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk(value, "", &mut found);
    found
}

#[test]
fn every_failure_code_is_explained_and_every_explained_code_exists() {
    let mut codes = BTreeSet::new();
    let mut folders: Vec<PathBuf> = ["core", "admin", "transport-kit", "contracts", "relay", "consumer", "server"]
        .map(|f| root().join("crates").join(f).join("src"))
        .into();
    for members in ["stores", "transports"] {
        folders.extend(fs::read_dir(root().join(members)).unwrap().map(|m| m.unwrap().path().join("src")));
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let source = fs::read_to_string(path).unwrap();
                codes.extend(codes_in(source.split("#[cfg(test)]").next().unwrap()));
            }
        }
    }
    assert!(codes.len() > 10, "only {codes:?} were found");
    let explained: BTreeSet<String> =
        codes::all().map(|known| known.code.to_owned()).filter(|code| is_code(code)).collect();
    assert_eq!(explained, codes, "lists of codes, left, and what the sources say, right");
}

/// The codes of the failures and findings that a source makes: the first text in the call.
fn codes_in(source: &str) -> Vec<String> {
    let mut codes = Vec::new();
    let failures = [
        "::transient(",
        "::permanent(",
        "::crashed(",
        "::unavailable(",
        "::gone(",
        "::not_yet(",
        "Failure::new(",
        "Problem::new(",
        "Self::new(",
        "outcome(",
        "json_line(",
        "envelope(",
    ];
    let findings = ["warning(", "Warning(", ".warn(", "Diagnostic::problem(", "DuplicateWindow {", "K::", "_ => "];
    for call in failures.into_iter().chain(findings) {
        for (at, _) in source.match_indices(call) {
            let text = source[at..].split('"').nth(1).unwrap_or_default();
            codes.extend(Some(text.to_owned()).filter(|text| is_code(text)));
        }
    }
    codes
}

fn is_code(text: &str) -> bool {
    let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    text.split_once('.').is_some_and(|(kind, what)| word(kind) && word(what))
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut pages = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for folder in ["docs", "docs/decisions"] {
        let files = fs::read_dir(root().join(folder)).unwrap();
        let files = files.map(|f| format!("{folder}/{}", f.unwrap().file_name().display()));
        pages.extend(files.filter(|name| Path::new(name).extension().is_some_and(|e| e == "md")));
    }
    pages.extend(["shop", "exec-handler"].map(|example| format!("examples/{example}/README.md")));
    for from in pages {
        let folder = root().join(Path::new(&from).parent().unwrap());
        for link in page(&from).split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.starts_with("http") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(&from) } else { folder.join(file) };
            let text = fs::read_to_string(&target).unwrap_or_else(|e| panic!("{from} links to {link}: {e}"));
            let anchors: Vec<String> = text.lines().filter(|l| l.starts_with('#')).map(anchor).collect();
            assert!(heading.is_empty() || anchors.iter().any(|a| a == heading), "{from} links to {link}: {anchors:?}");
        }
    }
}

/// A heading as links spell it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[test]
fn the_page_of_sqlite_names_every_table_and_no_column_that_is_not_there() {
    let schema = page("stores/sqlite/migrations/0001_native_log.up.sql")
        + &page("crates/admin/migrations/sqlite_1.sql")
        + &page("crates/admin/migrations/sqlite_2.sql");
    let schema = schema.replace("create table if not exists", "create table");
    let creates: Vec<&str> =
        schema.split("create table postroom_").skip(1).map(|t| t.split(';').next().unwrap()).collect();
    let page = page("docs/sqlite.md");
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut named = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `postroom_")) {
        let mut cells = row.split(" | ");
        let tables = words(cells.next().unwrap());
        let columns = words(cells.next().unwrap());
        for table in &tables {
            let table = table.trim_start_matches("postroom").trim_start_matches('_');
            named.insert(table.to_owned());
            let create = creates.iter().find(|c| c.split_whitespace().next() == Some(table));
            let create = create.unwrap_or_else(|| panic!("there is no table {table}"));
            for column in columns.iter().filter(|_| tables.len() == 1) {
                let there = create.lines().any(|line| line.split_whitespace().next() == Some(column));
                assert!(there, "postroom_{table} has no column {column}");
            }
        }
    }
    let all: BTreeSet<String> = creates.iter().filter_map(|c| c.split_whitespace().next()).map(str::to_owned).collect();
    assert_eq!(named, all);
}

#[test]
fn every_capability_of_the_systems_we_replace_names_tests_that_exist_or_is_open() {
    let mut there = BTreeSet::new();
    for folder in ["crates", "stores", "transports", "tools", "testkit", "tests", "examples"] {
        functions(&root().join(folder), &mut there);
    }
    let page = page("docs/seeds.md");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("- ")).collect();
    assert!(lines.len() > 100, "only {} lines", lines.len());
    for line in lines {
        let (what, proof) = line.rsplit_once(" — ").unwrap_or_else(|| panic!("no tests and not open: {line}"));
        if what.starts_with("- [ ] ") {
            assert_eq!(proof, "open", "{line}");
            continue;
        }
        assert!(what.starts_with("- [x] "), "{line}");
        let named: Vec<&str> = proof.split(" (").next().unwrap_or_default().split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test: {line}");
        for name in &named {
            assert!(there.contains(*name), "there is no test `{name}`");
        }
    }
}

/// The names of all functions in the sources of a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = fs::read_to_string(path).unwrap();
            let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            found.extend(source.split("fn ").skip(1).map(name).collect::<Vec<String>>());
        }
    }
}
