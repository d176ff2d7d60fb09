//! The jobs of a run and how they share the machine: some side by side, some alone, each with its output in a file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postroom_servers::wait_until;

use super::TestRun;
use super::build::Binary;
use super::plan::{LONG, PARTS, When};
use super::signals::Children;

/// What takes longer hangs: the longest job takes minutes on a slow machine.
const LIMIT: Duration = Duration::from_mins(25);

/// One process of the run.
pub(super) struct Job {
    /// The package it belongs to; nothing for the examples in documentation, which are of all.
    pub(super) package: Option<String>,
    /// What is printed of it.
    pub(super) name: String,
    when: When,
    command: Command,
}

/// What came of a job.
pub(super) struct Done {
    pub(super) package: Option<String>,
    pub(super) name: String,
    pub(super) passed: bool,
    /// Tests that ran.
    pub(super) tests: usize,
    /// Names of those that failed.
    pub(super) failed: Vec<String>,
    pub(super) seconds: f64,
    pub(super) output: PathBuf,
}

/// The jobs of these binaries, in the order they are to start, `without` some tests of some targets.
pub(super) fn jobs(binaries: &[Binary], without: &[(&str, &[&str])], more: &[String]) -> Vec<Job> {
    let skipped = |binary: &Binary| -> Vec<&str> {
        let of_it = without.iter().filter(|(target, _)| *target == binary.target);
        of_it.flat_map(|(_, tests)| tests.iter().copied()).collect()
    };
    let mut jobs = Vec::new();
    // Names of tests add to the name of a part, so a program that gets some is not cut into parts.
    let parts = if more.is_empty() { PARTS } else { &[] };
    for part in parts {
        for binary in binaries.iter().filter(|binary| binary.integration && binary.target == part.target) {
            let name = format!("{} {}", label(binary), part.tests.trim_end_matches("::"));
            let args = [&[part.tests][..], &skipping(&skipped(binary))].concat();
            jobs.push(Job::new(binary, name, part.when, &args, more));
        }
    }
    let rank = |binary: &&Binary| LONG.iter().position(|long| *long == binary.target).unwrap_or(LONG.len());
    let mut rest: Vec<&Binary> = binaries.iter().collect();
    rest.sort_by_key(rank);
    for binary in rest {
        let parts = parts.iter().filter(|part| binary.integration && part.target == binary.target);
        let own: Vec<&str> = parts.map(|part| part.tests).chain(skipped(binary)).collect();
        jobs.push(Job::new(binary, label(binary), When::Any, &skipping(&own), more));
    }
    jobs
}

fn skipping<'a>(tests: &[&'a str]) -> Vec<&'a str> {
    tests.iter().flat_map(|test| ["--skip", *test]).collect()
}

fn label(binary: &Binary) -> String {
    let package = binary.package.trim_start_matches("postroom-");
    if !binary.integration {
        return format!("{package} (src)");
    }
    if binary.target == package { package.to_owned() } else { format!("{package} {}", binary.target) }
}

impl Job {
    fn new(binary: &Binary, name: String, when: When, args: &[&str], more: &[String]) -> Self {
        let mut command = Command::new(&binary.program);
        command.args(args).args(more).current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
        Self { package: Some(binary.package.clone()), name, when, command }
    }

    /// The examples in documentation, which cargo compiles and runs. Compilers take all there is of a machine, and tests beside
    /// them wait for servers that start; so these come last where both want the same.
    pub(super) fn documentation(cargo: &Command, selection: &[String]) -> Self {
        let mut command = Command::new("nice");
        command.arg(cargo.get_program()).args(["test", "--doc"]).args(selection);
        for (name, value) in cargo.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self { package: None, name: "examples in documentation".to_owned(), when: When::Any, command }
    }

    /// Tells it which servers are its, and whether the program under test is built.
    pub(super) fn on(&mut self, run: &TestRun, built: bool) {
        if let Some(name) = &run.own_servers {
            self.command.env("XTASK_SERVICES", name);
        }
        if built {
            self.command.env("XTASK_BUILT", "1");
        }
    }

    fn run(mut self, folder: &Path, children: &Children) -> io::Result<Done> {
        let since = Instant::now();
        let output = folder.join(self.name.replace(' ', "-") + ".log");
        let file = File::create(&output)?;
        self.command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut child = children.spawn(&mut self.command)?;
        if !wait_until(LIMIT, || !matches!(child.try_wait(), Ok(None))) {
            Children::end(&child);
        }
        let passed = children.wait(child)?.success();
        let (tests, failed) = read(&fs::read_to_string(&output).unwrap_or_default());
        let seconds = since.elapsed().as_secs_f64();
        Ok(Done { package: self.package, name: self.name, passed, tests, failed, seconds, output })
    }
}

/// Runs them all, `side_by_side` at once, then those that want to be alone. Says each one as it ends.
pub(super) fn run(jobs: Vec<Job>, side_by_side: usize, folder: &Path, children: &Children) -> io::Result<Vec<Done>> {
    let (alone, beside): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.when == When::Alone);
    let total = alone.len() + beside.len();
    let ended = AtomicUsize::new(0);
    let mut done = Vec::new();
    for (jobs, workers) in [(beside, side_by_side), (alone, 1)] {
        let waiting = Mutex::new(jobs.into_iter());
        let work = || -> io::Result<Vec<Done>> {
            let mut done = Vec::new();
            loop {
                let next = waiting.lock().map_err(|_| io::Error::other("a worker died"))?.next();
                let Some(job) = next else { return Ok(done) };
                let ran = job.run(folder, children)?;
                say(&ran, ended.fetch_add(1, Ordering::Relaxed) + 1, total);
                done.push(ran);
            }
        };
        let ran: Vec<io::Result<Vec<Done>>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, io::Result<Vec<Done>>>| {
                worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker died")))
            };
            workers.into_iter().map(join).collect()
        });
        for worker in ran {
            done.extend(worker?);
        }
    }
    Ok(done)
}

fn say(done: &Done, number: usize, total: usize) {
    let word = if done.passed { "ok" } else { "FAILED" };
    println!("[{number}/{total}] {:<34} {word:<7} {:>4} tests {:>7.1} s", done.name, done.tests, done.seconds);
}

/// How many tests ran, and which failed.
fn read(output: &str) -> (usize, Vec<String>) {
    let failed = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let count = |word: &str| word.trim().split(' ').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ")?.split_once(". "));
    // "ok. 12 passed; 0 failed; 0 ignored; …"
    let tests = results.map(|(_, counts)| counts.split(';').take(2).map(count).sum::<usize>()).sum();
    (tests, failed.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_the_test_programs_print_is_counted_and_failures_are_named() {
        let output = "running 3 tests
test a::b ... ok
test a::c ... FAILED
test d ... ok

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s
";
        assert_eq!(read(output), (3, vec!["a::c".to_owned()]));
    }
}
