//! `cargo xtask test`: builds the tests once, starts the servers they need, and runs the test programs side by side.
//!
//! `cargo test` runs one program after the other, and most of them wait most of the time: for leases, for servers that are
//! restarted, for time-outs. [`plan`] says what each package needs, [`jobs`] how they share the machine, [`report`] what is said of it.
//! A run has servers and a folder of its own, so that two runs do not disturb each other; what is interrupted leaves neither.

mod build;
mod jobs;
mod plan;
mod report;
mod signals;

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use nix::sys::statvfs::{FsFlags, statvfs};
use postroom_servers::State;

use self::jobs::{Done, Job};
use self::signals::Children;
use crate::cargo_command;
use crate::services::FOR_TESTS;

/// Which tests.
pub(crate) struct Wanted {
    which: Which,
    /// Packages by name, as far as they are selected by name.
    packages: Vec<String>,
    /// Handed on to the test programs.
    more: Vec<String>,
    /// Whether the table in CONTRIBUTING.md is written anew.
    record: bool,
}

#[derive(PartialEq, Eq)]
enum Which {
    All,
    Quick,
    Packages,
}

impl Wanted {
    /// `[quick | NAME…] [--record] [-- ARGS]`.
    fn parse(args: &[&str]) -> io::Result<Self> {
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let more = args.iter().skip(at + 1).map(|arg| (*arg).to_owned()).collect();
        let (options, names): (Vec<&str>, Vec<&str>) = args[..at].iter().partition(|arg| arg.starts_with("--"));
        if let Some(unknown) = options.iter().find(|option| **option != "--record") {
            return Err(io::Error::other(format!(
                "{unknown} is no option of it: what test programs understand comes after --"
            )));
        }
        let known = build::packages()?;
        let (which, packages) = match names[..] {
            [] => (Which::All, known.into_iter().map(|(name, _)| name).collect()),
            ["quick"] => (Which::Quick, Vec::new()),
            _ => (Which::Packages, names.iter().map(|name| named(name, &known)).collect::<Result<_, _>>()?),
        };
        if options.contains(&"--record") && which != Which::All {
            return Err(io::Error::other("--record is for a run of all tests"));
        }
        Ok(Self { which, packages, more, record: !options.is_empty() })
    }

    /// How cargo is told.
    fn selection(&self) -> Vec<String> {
        let words: Vec<&str> = match self.which {
            Which::All => vec!["--workspace"],
            // With the features of the whole workspace: what this builds serves a run of all tests, too.
            Which::Quick => {
                let tests = plan::QUICK.iter().flat_map(|(target, _)| ["--test", *target]);
                let programs = plan::QUICK_PROGRAMS.iter().flat_map(|name| ["--bin", *name]);
                ["--workspace", "--lib"].into_iter().chain(programs).chain(tests).collect()
            }
            Which::Packages => self.packages.iter().flat_map(|name| ["--package", name]).collect(),
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// How cargo is told of those whose documentation has examples: libraries.
    fn documented(&self) -> io::Result<Option<Vec<String>>> {
        if self.which != Which::Packages {
            return Ok((self.which == Which::All).then(|| self.selection()));
        }
        let known = build::packages()?.into_iter().filter(|(_, folder)| folder.join("src/lib.rs").is_file());
        let libraries = known.map(|(name, _)| name).filter(|name| self.packages.contains(name));
        let selection: Vec<String> = libraries.flat_map(|name| ["--package".to_owned(), name]).collect();
        Ok((!selection.is_empty()).then_some(selection))
    }
}

/// The package of this name, with or without `postroom-`, or in this folder.
fn named(name: &str, known: &[(String, PathBuf)]) -> io::Result<String> {
    let folder = Path::new(name);
    let is_it = |(package, at): &&(String, PathBuf)| {
        package == name
            || package.strip_prefix("postroom-") == Some(name)
            || (folder.components().count() > 1 && at.ends_with(folder))
    };
    known.iter().find(is_it).map(|(package, _)| package.clone()).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(package, _)| package.trim_start_matches("postroom-")).collect();
        io::Error::other(format!("there is no package {name:?} with tests; there are quick, {}", names.join(", ")))
    })
}

/// Prints what the tests need of Debian: packages, and `COMMAND=PACKAGE` where any such command will do.
pub(crate) fn needs(args: &[&str]) -> io::Result<bool> {
    for tool in plan::tools(&Wanted::parse(args)?.packages) {
        println!("{tool}");
    }
    Ok(true)
}

/// Builds and runs them; says whether all passed.
pub(crate) fn run(args: &[&str]) -> io::Result<bool> {
    let (since, wanted) = (Instant::now(), Wanted::parse(args)?);
    let children = Children::watch()?;
    let run = TestRun::prepare(plan::servers(&wanted.packages))?;
    // Servers start while cargo builds.
    let (built, up) = std::thread::scope(|scope| {
        let up = scope.spawn(|| run.up(&children));
        let built = build::build(&wanted, &children);
        (built, up.join().unwrap_or_else(|_| Err(io::Error::other("the servers' thread died"))))
    });
    let building = since.elapsed();
    let outcome = match (built, up) {
        (Ok(Some(binaries)), Ok(())) => test(&wanted, &binaries, &run, &children),
        (Ok(None), _) if !children.interrupted() => Err(io::Error::other("the tests do not build")),
        (Err(error), _) | (_, Err(error)) => Err(error),
        _ => Err(io::ErrorKind::Interrupted.into()),
    };
    let passed = outcome.as_ref().is_ok_and(|done| done.iter().all(|done| done.passed));
    if let Ok(done) = &outcome {
        report::print(done, &run, building, since.elapsed());
        if wanted.record && passed {
            report::record(done)?;
        }
    }
    run.down(!passed)?;
    match outcome {
        Err(_) if children.interrupted() => Err(io::Error::other("interrupted; the servers of this run are down")),
        outcome => outcome.map(|_| passed),
    }
}

fn test(wanted: &Wanted, binaries: &[build::Binary], run: &TestRun, children: &Children) -> io::Result<Vec<Done>> {
    let without = if wanted.which == Which::Quick { [plan::QUICK, plan::WITH_SERVERS].concat() } else { Vec::new() };
    let mut jobs = jobs::jobs(binaries, &without, &wanted.more);
    if wanted.more.is_empty() {
        // First: nothing else may wait for it in the end.
        let documentation = wanted.documented()?.map(|selection| Job::documentation(&cargo_command(), &selection));
        jobs.splice(..0, documentation);
    }
    for job in &mut jobs {
        job.on(run, wanted.which == Which::All);
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    jobs::run(jobs, cores * SIDE_BY_SIDE, &run.folder, children)
}

/// Jobs at once for each core: tests wait more than they compute.
const SIDE_BY_SIDE: usize = 2;

/// What a run has for itself.
struct TestRun {
    /// For outputs of tests, and for what the servers wrote when something failed.
    folder: PathBuf,
    /// The word that names its servers, unless those of `services up` are used.
    own_servers: Option<String>,
    servers: Vec<&'static str>,
}

impl TestRun {
    fn prepare(servers: Vec<&'static str>) -> io::Result<Self> {
        let runs = State::downloads().with_file_name("test-runs");
        fs::create_dir_all(&runs)?;
        remove_others(&runs)?;
        let folder = runs.join(std::process::id().to_string());
        fs::create_dir_all(&folder)?;
        let there = !servers.is_empty() && crate::services::are_well(&servers)?;
        let own_servers = (!there && !servers.is_empty()).then(|| own(std::process::id()));
        Ok(Self { folder, own_servers, servers })
    }

    fn up(&self, children: &Children) -> io::Result<()> {
        let Some(name) = &self.own_servers else { return Ok(()) };
        let log = fs::File::create(self.folder.join("services.log"))?;
        let mut up = Command::new(std::env::current_exe()?);
        up.args(["services", "up"]).args(&self.servers).env("XTASK_SERVICES", name).env(FOR_TESTS, "1");
        if let Some(folder) = in_memory() {
            up.env("TMPDIR", folder);
        }
        let child = children.spawn(up.stdout(log.try_clone()?).stderr(log))?;
        if children.wait(child)?.success() {
            return Ok(());
        }
        let said = fs::read_to_string(self.folder.join("services.log"))?;
        Err(io::Error::other(format!("the servers do not start:\n{said}")))
    }

    /// Ends its servers. When something failed, what they wrote is kept.
    fn down(&self, keep: bool) -> io::Result<()> {
        if let Some(name) = &self.own_servers {
            let keeping = keep.then(|| self.folder.join("servers"));
            end_servers(name, keeping.as_deref())?;
        }
        if keep { Ok(()) } else { fs::remove_dir_all(&self.folder) }
    }
}

/// Where files are in memory, if there is room for those of the servers. Tests make some two thousand databases of three hundred
/// files each, which costs a disk more than all that is done with them; and no test loses what only a disk would keep.
fn in_memory() -> Option<&'static Path> {
    const ROOM: u64 = 8 << 30;
    let folder = Path::new("/dev/shm");
    let system = statvfs(folder).ok().filter(|system| !system.flags().contains(FsFlags::ST_NOEXEC))?;
    let room = system.blocks_available() * system.fragment_size();
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available: u64 = available.trim().trim_end_matches(" kB").parse().ok()?;
    (room.min(available << 10) > ROOM).then_some(folder)
}

/// Under which name the servers of a run are written down.
fn own(pid: u32) -> String {
    format!("services-{pid}")
}

fn end_servers(name: &str, keep: Option<&Path>) -> io::Result<()> {
    let mut down = Command::new(std::env::current_exe()?);
    down.args(["services", "down"]).env("XTASK_SERVICES", name);
    if let Some(folder) = keep {
        down.arg("--keep-logs").arg(folder);
    }
    let output = down.output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let written = State::downloads().with_file_name(name);
    if written.exists() { fs::remove_dir_all(written) } else { Ok(()) }
}

/// What runs left that ended without cleaning up, and what failed ones kept.
fn remove_others(runs: &Path) -> io::Result<()> {
    for run in fs::read_dir(runs)?.flatten() {
        let pid = run.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        if let Some(pid) = pid.filter(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            end_servers(&own(pid), None)?;
            fs::remove_dir_all(run.path())?;
        }
    }
    Ok(())
}
