//! How the servers' programs are found and run on this machine.
//!
//! PostgreSQL and PgBouncer refuse to run as root, so root runs them as the user `postgres` that Debian's packages make.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Debian puts only wrappers of PostgreSQL's programs on the path.
const FOLDERS: [&str; 4] = ["/usr/lib/postgresql/15/bin", "/usr/bin", "/usr/sbin", "/usr/local/bin"];

/// Below the range from which the kernel gives outgoing connections their ports: a port that is free now is not taken
/// by some client while its server restarts.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// Where a server's program is; `package` is Debian's name for what brings it.
pub fn program(name: &str, package: &str) -> io::Result<PathBuf> {
    let found = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    other_program(name).or(found).ok_or_else(|| {
        let folders = FOLDERS.join(", ");
        io::Error::other(format!("`{name}` is not in {folders}: run `apt-get install {package}`"))
    })
}

/// The program in another version than this Debian's, if it is in the folder that `XTASK_PROGRAMS` names.
pub fn other_program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("XTASK_PROGRAMS")?;
    Some(Path::new(&folder).join(name)).filter(|path| path.is_file())
}

/// Whether we are root, who may not run PostgreSQL.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// A command that runs as a user PostgreSQL accepts, in a folder that this user may enter.
pub fn as_postgres(program: impl AsRef<Path>) -> Command {
    let program = program.as_ref();
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}

/// Runs a command to its end. The error says what it wrote.
pub fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&said).trim())))
}

/// Makes a folder that belongs to the user of [`as_postgres`], or gives that user one that is there.
pub fn owned_folder(path: &Path) -> io::Result<()> {
    let mut install = Command::new("install");
    install.args(["-d", "-m", "700"]);
    if is_root() {
        install.args(["-o", "postgres", "-g", "postgres"]);
    }
    run(install.arg(path))
}

/// Makes a new folder for temporary files that belongs to the user of [`as_postgres`].
pub fn unique_folder(prefix: &str) -> io::Result<PathBuf> {
    let random: String = std::iter::repeat_with(fastrand::alphanumeric).take(10).collect();
    let path = std::env::temp_dir().join(format!("{prefix}-{random}"));
    fs::create_dir(&path)?;
    owned_folder(&path)?;
    Ok(path)
}

/// A port on loopback that nobody listens on, reserved for this process until it ends: whoever asks for one in another
/// process, or in another test run, gets another one, although nobody listens on this one yet.
pub fn free_port() -> io::Result<u16> {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let me = fs::metadata("/proc/self")?.uid();
    let folder = std::env::temp_dir().join(format!("postroom-ports-{me}"));
    fs::create_dir_all(&folder)?;
    for port in std::iter::repeat_with(|| fastrand::u16(PORTS)).take(1000) {
        let lock = File::create(folder.join(port.to_string()))?;
        // The same file, opened once more by this process, is locked too.
        if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(lock);
            return Ok(port);
        }
    }
    Err(io::Error::other(format!("no free port between {} and {}", PORTS.start, PORTS.end)))
}

/// The end of a log, for an error that has to say why a server is not there.
pub fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
    format!("{}:\n{}", log.display(), end.join("\n"))
}

/// Asks again and again until something is so; false when it is not so within the limit.
#[expect(clippy::disallowed_methods, reason = "other processes send no signal when they are up or gone")]
pub fn wait_until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !so() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}
