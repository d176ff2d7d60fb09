//! The Debian package and the systemd unit, by the tools that will read them: `systemd-analyze`, and `dpkg` in a fresh root
//! that has no systemd.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be made or run fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postroom_e2e::{postroom, target};
use postroom_testbed::{debian_mirror, debian_release};

/// Of ten, in tenths, as `systemd-analyze security` takes it.
const EXPOSURE_MAX: &str = "15";

fn repository() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Runs a program as root; it must work. Gives back what it printed.
fn root(program: &str, args: &[&str]) -> String {
    let mut command = Command::new("sudo");
    command.args(["-n", program]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command = Command::new(program);
    }
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    printed(command.args(args))
}

fn printed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A package of the program under test. Quick to make rather than small.
fn package(folder: &Path) -> PathBuf {
    let mut build = Command::new(repository().join("deploy/debian/build.sh"));
    build.arg(postroom()).arg(folder).env("DEB_COMPRESSION", "none");
    PathBuf::from(printed(&mut build).trim())
}

#[test]
fn the_unit_is_understood_by_systemd_and_gives_the_relay_little() {
    let unit = fs::read_to_string(repository().join("deploy/postroom.service")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("postroom.service");
    // Whoever checks it need not have it installed.
    fs::write(&file, unit.replace("/usr/bin/postroom", postroom().to_str().unwrap())).unwrap();
    let analyze = |args: &[&str]| {
        let output = Command::new("systemd-analyze").args(args).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    assert_eq!(analyze(&["verify", "--man=no"]), "");
    analyze(&["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_MAX]);
}

#[test]
fn the_same_program_makes_the_same_package() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = folders.each_ref().map(|folder| fs::read(package(folder.path())).unwrap());
    assert!(one == other, "two packages of one program differ");
}

/// A root of the Debian that runs here, without systemd; gone with the test.
struct Chroot(PathBuf);

impl Chroot {
    /// Unpacks one that was made before with these packages, or makes one from the mirror that apt uses.
    fn with(packages: &str) -> Self {
        let cache = target().join("debian");
        fs::create_dir_all(&cache).unwrap();
        let lock = File::create(cache.join("lock")).unwrap();
        lock.lock().unwrap();
        let suite = debian_release().unwrap();
        let tarball = cache.join(format!("{suite}-{packages}.tar"));
        let (folder, text) =
            (cache.join(format!("root-{}", std::process::id())), |path: &Path| path.display().to_string());
        let chroot = Self(folder.clone());
        if tarball.exists() {
            fs::create_dir(&folder).unwrap();
            root("tar", &["--extract", "--numeric-owner", "--file", &text(&tarball), "--directory", &text(&folder)]);
            return chroot;
        }
        let include = format!("--include={packages}");
        root("debootstrap", &["--variant=minbase", &include, &suite, &text(&folder), &debian_mirror().unwrap()]);
        // Its copies of packages are half of it.
        root("chroot", &[&text(&folder), "apt-get", "clean"]);
        let new = tarball.with_extension("new");
        root("tar", &["--create", "--numeric-owner", "--file", &text(&new), "--directory", &text(&folder), "."]);
        fs::rename(new, tarball).unwrap();
        chroot
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.join(inside.trim_start_matches('/'))
    }

    fn has(&self, inside: &str) -> bool {
        // Some folders are closed to others than root.
        self.sh(&format!("test -e {inside} && echo yes || echo no")) == "yes\n"
    }

    /// Runs a line of shell inside, as root; it must work.
    fn sh(&self, line: &str) -> String {
        root("chroot", &[self.0.to_str().unwrap(), "sh", "-c", line])
    }

    /// The same as the user that the package makes, where the unit would run it.
    fn postroom(&self, line: &str) -> String {
        let line = format!("cd /var/lib/postroom && {line}");
        root("chroot", &["--userspec=postroom:postroom", self.0.to_str().unwrap(), "sh", "-c", &line])
    }
}

impl Drop for Chroot {
    fn drop(&mut self) {
        root("rm", &["-rf", "--one-file-system", self.0.to_str().unwrap()]);
    }
}

/// Names of the packages that a package depends on, with commas.
fn depends(package: &Path) -> String {
    let field = printed(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"));
    let names: Vec<&str> = field.split(',').filter_map(|one| one.split_whitespace().next()).collect();
    assert!(names.contains(&"libc6") && names.contains(&"adduser"), "{field}");
    names.join(",")
}

#[test]
fn the_package_installs_relays_and_goes_where_there_is_no_systemd() {
    let folder = tempfile::tempdir().unwrap();
    let package = package(folder.path());
    let chroot = Chroot::with(&depends(&package));
    root("cp", &[package.to_str().unwrap(), chroot.path("/postroom.deb").to_str().unwrap()]);
    assert!(!chroot.has("/lib/systemd/systemd"), "this root is meant to have no systemd");

    chroot.sh("dpkg --install /postroom.deb");
    assert_eq!(chroot.sh("dpkg --verify postroom"), "", "what is there is what was packed");
    assert_eq!(
        chroot.sh("stat -c '%U %G %a' /var/lib/postroom /etc/postroom /etc/postroom/config.toml"),
        "postroom postroom 750\nroot postroom 750\nroot postroom 640\n"
    );
    for file in [
        "/lib/systemd/system/postroom.service",
        "/usr/share/man/man1/postroom.1.gz",
        "/usr/share/man/man1/postroom-relay-run.1.gz",
        "/usr/share/bash-completion/completions/postroom",
        "/usr/share/zsh/vendor-completions/_postroom",
        "/usr/share/fish/vendor_completions.d/postroom.fish",
        "/usr/share/doc/postroom/copyright",
        "/usr/share/doc/postroom/changelog.gz",
        "/usr/share/doc/postroom/config.schema.json",
    ] {
        assert!(chroot.has(file), "{file} is not there");
    }
    assert!(chroot.postroom("postroom version").starts_with("postroom "));
    chroot.postroom("postroom config show --config /etc/postroom/config.toml");

    let config = "[store.main]\nurl = \"sqlite:///var/lib/postroom/shop.db\"\n\
        [[route]]\nname = \"out\"\nto = { stdout = {} }\n";
    chroot.sh(&format!("printf '%s' '{config}' >> /etc/postroom/config.toml"));
    chroot.postroom("postroom config check --config /etc/postroom/config.toml");
    chroot.postroom("postroom store migrate up --config /etc/postroom/config.toml");
    chroot.postroom(
        "postroom event append --type order.placed --key o-1 --payload '{}' --config /etc/postroom/config.toml",
    );
    let delivered = chroot.postroom("postroom relay run --drain --config /etc/postroom/config.toml");
    assert!(delivered.contains("\"order.placed\""), "{delivered}");

    // The same version again stands for an upgrade: what people wrote stays.
    chroot.sh("dpkg --install /postroom.deb && grep -q shop.db /etc/postroom/config.toml");
    chroot.sh("dpkg --remove postroom");
    assert!(!chroot.has("/usr/bin/postroom"));
    assert!(
        chroot.has("/etc/postroom/config.toml") && chroot.has("/var/lib/postroom/shop.db"),
        "only a purge takes these"
    );
    chroot.sh("dpkg --purge postroom");
    assert!(!chroot.has("/etc/postroom") && !chroot.has("/var/lib/postroom"), "a purge takes these");
}
