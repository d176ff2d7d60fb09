//! The tree says one word per concept: names that were given up do not come back.
//!
//! A word is found inside identifiers too: `put aside` in `put_aside` and `PutAside`. `CHANGELOG.md` lists the renames, so it
//! is not read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// An old word or phrase, and what is said instead. One with an upper-case letter is found only as it is spelt, because it is
/// English otherwise; `heard(` is found only as a call.
const OLD: &[(&str, &str)] = &[
    ("desk", "admin"),
    ("desks", "admin"),
    ("burial", "dead letter"),
    ("bury", "publish a dead letter"),
    ("buries", "takes dead letters"),
    ("buried", "published as a dead letter"),
    ("grave", "dead letter"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("leaf", "partition"),
    ("the leaves", "the partitions"),
    ("of leaves", "of partitions"),
    ("the ring", "the partitions"),
    ("seg", "segment"),
    ("layout", "mapping"),
    ("layouts", "mappings"),
    ("LaneName", "OrderScope"),
    ("Feed", "Subscription"),
    ("Wake", "Notifier"),
    ("ear", "notifier"),
    ("ears", "notifiers"),
    ("heard(", "notified("),
    ("upkeep", "maintenance"),
    ("vitals", "gauges"),
    ("examine", "diagnose"),
    ("examines", "diagnoses"),
    ("Standing", "Ownership"),
    ("standing(", "ownership("),
    ("NotAStore", "UnexpectedSchema"),
    ("LateWriteLock", "ReadBeforeWrite"),
    ("for looking", "for admin"),
    ("those who look", "admin connections"),
    ("ActionRow", "AuditRow"),
    ("aside", "parked"),
    ("hand out(", "take from("),
    ("pulse", "change probe"),
    ("Beat", "Fingerprint"),
    ("doubts", "ownership epoch"),
    ("suspects", "poison, culprit"),
    ("guilt", "blame"),
    ("guilty", "to blame"),
    ("accuse", "blame"),
    ("owed", "slots in doubt"),
    ("pressed", "slot wanted"),
    ("starved", "out of slots"),
    ("Ground", "SqlExecutor"),
    ("RouteRun", "Route"),
    ("RouteDefinition", "RouteSpec"),
    ("struct Said", "a noun of the domain: ProgramOutput, ConnectionEvent"),
    ("enum Said", "a noun of the domain: ServerMethod"),
    ("struct Seen", "a noun of the domain: Received, Counters"),
    ("type Seen", "a noun of the domain: Arrivals, Progress"),
    ("struct Told", "a noun of the domain: WorkerRequest"),
    ("struct Walk", "a noun of the domain"),
    ("struct Work", "a noun of the domain: SettleBatch"),
    ("type Work", "a noun of the domain: SessionFuture"),
    ("struct Stretch", "a noun of the domain: RowRange"),
    ("struct Wish", "a noun of the domain: RouteFilter"),
    ("enum Next", "a noun of the domain: KeyEffect"),
    ("enum Left", "a noun of the domain: Remainder"),
    ("struct Out", "a noun of the domain: InFlight, Lease"),
    ("struct Found", "a noun of the domain: ReadResult, Detected"),
    ("type Found", "a noun of the domain: TableDefinition, TopicResults"),
    ("struct Handed", "Outgoing"),
];

/// Where an old word may stand, and why: the beginning of a path. An entry that is not needed any more is an error.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("layout", "Cargo.toml", "a feature of ratatui"),
    ("layout", "crates/cli/src/commands/top/draw.rs", "ratatui's"),
    ("layout", "crates/server/src/config/definition.rs", "who writes the old key is told the new one"),
    ("layout", "crates/server/tests/layers/values.rs", "who writes the old key is told the new one"),
    ("layout", "crates/server/tests/bad/keys.txt", "who writes the old key is told the new one"),
    ("upkeep", "crates/server/src/metrics/page.rs", "a method of the Prometheus recorder"),
    ("leaf", "transports/nats/tests/nats/login.rs", "a field of NATS's tokens"),
];

#[test]
fn no_name_that_was_given_up_comes_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut by_first: BTreeMap<String, Vec<Old<'_>>> = BTreeMap::new();
    for (old, new) in OLD {
        let pattern = words(old);
        by_first.entry(pattern[0].text.to_ascii_lowercase()).or_default().push((pattern, old, new));
    }
    let (mut found, mut needed) = (Vec::new(), vec![false; ALLOWED.len()]);
    for path in files(&root) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        if name == "CHANGELOG.md" || name == "Cargo.lock" || name.ends_with("tests/words.rs") {
            continue;
        }
        // What is not text has no words.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let text = words(&text);
        for (at, first) in text.iter().enumerate() {
            let patterns = by_first.get(&first.text.to_ascii_lowercase()).map(Vec::as_slice).unwrap_or_default();
            for (_, old, new) in patterns.iter().filter(|(pattern, old, _)| is(&text[at..], pattern, old)) {
                let allowed = |(word, place, _): &(&str, &str, &str)| word == old && name.starts_with(place);
                match ALLOWED.iter().position(allowed) {
                    Some(entry) => needed[entry] = true,
                    None => found.push(format!("{name}:{}: {old:?} is now {new:?}", first.line)),
                }
            }
        }
    }
    for ((word, place, _), _) in ALLOWED.iter().zip(needed).filter(|(_, needed)| !needed) {
        found.push(format!("{word:?} is allowed in {place:?} and not found there: remove it from the list"));
    }
    assert!(found.is_empty(), "old words:\n{}", found.join("\n"));
}

/// Phrases that read like a translation, and what pages say instead. Pages list the summaries of commands, keys, codes, alerts and
/// endpoints, so these are looked at, too.
const ODD: &[(&str, &str)] = &[
    ("goes on", "continues, or what happens next"),
    ("go on", "continue"),
    ("whoever", "a noun: the operator, the consumer"),
    ("those who", "a noun"),
    ("lets us in", "accepts connections"),
    ("its choice", "the handler decides"),
    ("so much late", "N minutes late"),
    ("as a writer", "begin immediate"),
    ("goodbye", "shut down cleanly"),
    ("seats", "at most N at once"),
    ("changes its mind", "a noun: DNS rebinding"),
    ("routes in time", "routes on time"),
    ("route in time", "route on time"),
    ("shown this once", "shown only once"),
];

/// Pages that name tests, whose names are not prose.
const NAMES_TESTS: &[&str] = &["docs/hazards.md", "docs/seeds.md"];

#[test]
fn pages_are_written_in_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let book = fs::read_dir(root.join("docs")).unwrap().map(|file| file.unwrap().path());
    let pages = book.filter(|path| path.extension().is_some_and(|end| end == "md" || end == "json"));
    let mut found = Vec::new();
    for path in pages.chain([root.join("README.md")]) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        let text = words(&text);
        for (odd, better) in ODD.iter().filter(|_| !NAMES_TESTS.contains(&name.as_str())) {
            let pattern = words(odd);
            let there = (0..text.len()).filter(|at| is(&text[*at..], &pattern, odd));
            found.extend(there.map(|at| format!("{name}:{}: write {better:?} instead of {odd:?}", text[at].line)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The words of an entry of [`OLD`], and the entry.
type Old<'t> = (Vec<Word<'t>>, &'t str, &'t str);

/// A word of a text, or of an identifier; or the parenthesis of a call.
struct Word<'t> {
    text: &'t str,
    line: usize,
}

/// Whether a text goes on with the old words.
fn is(text: &[Word<'_>], pattern: &[Word<'_>], old: &str) -> bool {
    let exact = old.chars().any(|c| c.is_ascii_uppercase());
    text.len() >= pattern.len()
        && text.iter().zip(pattern).all(|(word, pattern)| {
            if exact { word.text == pattern.text } else { word.text.eq_ignore_ascii_case(pattern.text) }
        })
}

/// Splits a text where letters end, and where an upper-case letter follows a lower-case one.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    for (number, text) in text.lines().enumerate() {
        let line = number + 1;
        let mut begin = None;
        let mut before = ' ';
        for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
            let hump = before.is_lowercase() && c.is_uppercase();
            if let Some(start) = begin.filter(|_| hump || !c.is_alphanumeric()) {
                found.push(Word { text: &text[start..at], line });
                begin = None;
            }
            if c.is_alphanumeric() && begin.is_none() {
                begin = Some(at);
            }
            if c == '(' {
                found.push(Word { text: "(", line });
            }
            before = c;
        }
    }
    found
}

/// Every file of the tree that somebody wrote.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (name, path) = (entry.file_name(), entry.path());
        let skipped = name.to_string_lossy().starts_with('.') || name == "target" || name == "node_modules";
        match entry.file_type().unwrap() {
            _ if skipped => {}
            kind if kind.is_dir() => all.extend(files(&path)),
            _ => all.push(path),
        }
    }
    all.sort();
    all
}
