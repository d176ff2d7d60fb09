//! What is said of a run: failures with what is needed to look into them, and the table in CONTRIBUTING.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::time::Duration;

use super::jobs::Done;
use super::{TestRun, plan};

/// Lines of a failed program's output that are printed, from its beginning and from its end.
const LINES: usize = 60;
/// Lines of a panic's message that are printed once more at the end.
const LINES_OF_A_PANIC: usize = 25;
const PAGE: &str = "CONTRIBUTING.md";
const BEGIN: &str = "<!-- written by ./run test --record -->";
const END: &str = "<!-- until here -->";

pub(super) fn print(done: &[Done], run: &TestRun, building: Duration, all: Duration) {
    let failed: Vec<&Done> = done.iter().filter(|done| !done.passed).collect();
    for done in &failed {
        let output = fs::read_to_string(&done.output).unwrap_or_default();
        // The test programs repeat what failed tests printed after this word; a program that died has no such part.
        let told = output.find("\nfailures:\n").map_or(output.as_str(), |at| &output[at..]);
        let lines = without_frames(told);
        println!("\n--- {}", done.name);
        // The first failure says most; the last lines name all of them.
        if lines.len() > 2 * LINES {
            print_lines(&lines[..LINES]);
            println!("… {} lines …", lines.len() - 2 * LINES);
            print_lines(&lines[lines.len() - LINES..]);
        } else {
            print_lines(&lines);
        }
        println!("all of its output: {}", done.output.display());
        if let Some(package) = &done.package {
            let exactly = if done.failed.is_empty() { "" } else { " -- --exact " };
            let tests = done.failed.join(" ");
            println!("again: ./run test {}{exactly}{tests}", package.trim_start_matches("postroom-"));
        }
    }
    if !failed.is_empty() && run.own_servers.is_some() {
        println!("\nwhat the servers wrote: {}", run.folder.join("servers").display());
    }
    if !failed.is_empty() {
        println!("\nin short:");
    }
    for done in &failed {
        let output = fs::read_to_string(&done.output).unwrap_or_default();
        for panic in panics(&output) {
            println!("{}: {panic}", done.name);
        }
    }
    let (tests, busy) = done.iter().fold((0, 0.0), |(tests, busy), done| (tests + done.tests, busy + done.seconds));
    let (built, all) = (building.as_secs(), all.as_secs());
    println!(
        "\n{tests} tests in {} programs, {} failed; {all} s: {built} s until all was built and up, {busy:.0} s of tests side by side",
        done.len(),
        failed.len()
    );
}

/// Lines without the stacks of panics, which are mostly of the runtime and the test harness.
fn without_frames(text: &str) -> Vec<&str> {
    let mut in_frames = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let ends = in_frames && !line.starts_with(' ');
        in_frames = (in_frames && !ends) || line == "stack backtrace:";
        if !in_frames && !line.starts_with("note: ") {
            lines.push(line);
        }
    }
    lines
}

/// Place and first lines of each panic, each once: a log keeps only the end of what a run printed.
fn panics(output: &str) -> Vec<String> {
    let lines = without_frames(output);
    let begins = |line: &str| line.starts_with("thread '") && line.contains(" panicked at ");
    let mut panics = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let message =
            lines[at + 1..].iter().take_while(|line| !line.is_empty() && !begins(line)).take(LINES_OF_A_PANIC);
        let panic = std::iter::once(line).chain(message).copied().collect::<Vec<_>>().join("\n    ");
        if !panics.contains(&panic) {
            panics.push(panic);
        }
    }
    panics
}

fn print_lines(lines: &[&str]) {
    for line in lines {
        println!("{line}");
    }
}

/// Writes the table of packages, servers and seconds.
pub(super) fn record(done: &[Done]) -> io::Result<()> {
    let mut packages: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for done in done {
        let (tests, seconds) = packages.entry(done.package.as_deref().unwrap_or("documentation")).or_default();
        *tests += done.tests;
        *seconds += done.seconds;
    }
    let mut rows: Vec<_> = packages.into_iter().filter(|(_, (tests, _))| *tests > 0).collect();
    rows.sort_by(|(_, (_, a)), (_, (_, b))| b.total_cmp(a));
    let mut table = format!("{BEGIN}\n| package | servers | tests | seconds |\n| --- | --- | --- | --- |\n");
    for (name, (tests, seconds)) in rows {
        let servers = plan::servers(&[name.to_owned()]).join(", ");
        let short = name.trim_start_matches("postroom-");
        let _ = writeln!(table, "| {short} | {servers} | {tests} | {seconds:.0} |");
    }
    let page = fs::read_to_string(PAGE)?;
    let places = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = places.ok_or_else(|| io::Error::other(format!("{PAGE} has no place for the table")))?;
    fs::write(PAGE, format!("{before}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
---- a::b stdout ----

thread 'a::b' (17) panicked at tests/a.rs:3:5:
left: 1
right: 2
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/library/std/src/panicking.rs:689:5
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.


failures:
    a::b
";

    #[test]
    fn a_failure_is_printed_with_its_place_and_message_and_without_the_stack() {
        assert_eq!(panics(OUTPUT), ["thread 'a::b' (17) panicked at tests/a.rs:3:5:\n    left: 1\n    right: 2"]);
        let lines = without_frames(OUTPUT).join("\n");
        assert!(lines.contains("right: 2\n\n\nfailures:") && !lines.contains("rustc"), "{lines}");
    }
}
