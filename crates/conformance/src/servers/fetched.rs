//! Programs of PostgreSQL in versions that this Debian does not bring, fetched once with Maven beside the state of the servers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{State, run};

/// The folder of the programs `initdb`, `pg_ctl` and `postgres` of this version, for instance `18.6.0`.
pub fn postgres_programs(version: &str) -> io::Result<PathBuf> {
    let folder = State::downloads().join(format!("postgres-{version}"));
    if !folder.is_dir() {
        fetch(version, &folder)?;
    }
    Ok(folder.join("bin"))
}

fn fetch(version: &str, folder: &Path) -> io::Result<()> {
    let (artifact, archive) = match std::env::consts::ARCH {
        "aarch64" => ("linux-arm64v8", "postgres-linux-arm_64.txz"),
        _ => ("linux-amd64", "postgres-linux-x86_64.txz"),
    };
    let new = folder.with_extension("new");
    let _ = fs::remove_dir_all(&new);
    let root = new.join("root");
    fs::create_dir_all(&root)?;
    let mut maven = Command::new("mvn");
    maven.current_dir(&new).args(["-q", "-B", "dependency:unpack", "-DoutputDirectory=jar"]);
    run(maven.arg(format!("-Dartifact=io.zonky.test.postgres:embedded-postgres-binaries-{artifact}:{version}")))?;
    run(Command::new("tar").arg("-xJf").arg(new.join("jar").join(archive)).arg("-C").arg(&root))?;
    fs::rename(root, folder)?;
    fs::remove_dir_all(new)
}
