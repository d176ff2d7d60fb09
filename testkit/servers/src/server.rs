//! What differs from server to server, and how one is started and waited for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::certificates::{self, Certificates};
use super::system::{free_port, owned_folder, tail, wait_until};
use super::{Process, State};

/// How long a server may take until it answers, and until it has stopped.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// How often a server is started that ends by itself.
const STARTS: usize = 3;

/// The file in a server's folder that says which process it is.
const PROCESS: &str = "process";

/// One kind of server.
pub trait Server: Sync {
    /// Its name in the state file.
    fn name(&self) -> &'static str;
    /// Further ports it listens on, by name.
    fn listeners(&self) -> &'static [&'static str] {
        &[]
    }
    /// Makes what it needs before it starts for the first time.
    fn prepare(&self, _site: &Site, _so_far: &State) -> io::Result<()> {
        Ok(())
    }
    /// Starts it, away from the terminal, so that Ctrl-C does not reach it. Also again after it has stopped.
    fn start(&self, site: &Site) -> io::Result<Process>;
    /// Whether it does its work.
    fn answers(&self, site: &Site) -> bool;
    /// Its log.
    fn log(&self, site: &Site) -> PathBuf;
    /// The signal on which it stops soon and in good order.
    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }
}

/// Where one server lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Everything it writes is in here.
    pub folder: PathBuf,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    /// Its further ports, by name.
    pub more: BTreeMap<String, u16>,
    certificates: PathBuf,
}

impl Site {
    /// A new one for this server: a folder and ports nobody has.
    pub fn new(server: &dyn Server, folder: PathBuf, state: &State) -> io::Result<Self> {
        owned_folder(&folder)?;
        let port = free_port()?;
        let more = server.listeners().iter().map(|name| Ok(((*name).to_owned(), free_port()?)));
        let more = more.collect::<io::Result<_>>()?;
        Ok(Self { folder, port, more, certificates: certificates::folder(&state.folder) })
    }

    /// The port of one of its further listeners.
    pub fn port_of(&self, listener: &str) -> u16 {
        self.more.get(listener).copied().unwrap_or_default()
    }

    /// What it shows to those who want to talk in private.
    pub fn certificates(&self) -> Certificates {
        Certificates::at(self.certificates.clone())
    }

    /// Writes a file of its own.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Runs it in the background with its output in `log`.
    pub(crate) fn spawn(&self, command: &mut Command, log: &Path) -> io::Result<Process> {
        let output = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).current_dir(&self.folder);
        let child = command.process_group(0).spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // Whoever waits for children collects it, so that it does not look alive when it has ended.
        std::thread::spawn(move || {
            let mut child = child;
            let _ = child.wait();
        });
        Process::of(pid).ok_or_else(|| io::Error::other(format!("{command:?} ended at once; {}", tail(log))))
    }
}

/// Ends the servers that live in folders of this one, however they came to be left, and what they have started beside
/// themselves, such as Erlang's register of nodes.
pub fn end_leftovers(folder: &Path) -> io::Result<()> {
    for process in Process::at_home_in(folder) {
        process.crash()?;
    }
    for site in fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Ok(text) = fs::read(site.path().join(PROCESS)) {
            serde_json::from_slice::<Process>(&text)?.crash()?;
        }
    }
    Ok(())
}

/// Starts it and waits until it answers; the error says what its log says. One that ends by itself is started again: RabbitMQ
/// gives up when the machine is too busy for a timeout of five seconds inside it.
pub fn start(server: &dyn Server, site: &Site) -> io::Result<Process> {
    let mut starts = 0;
    loop {
        starts += 1;
        let process = server.start(site)?;
        // Before it answers, so that it is found when we are ended meanwhile.
        fs::write(site.folder.join(PROCESS), serde_json::to_vec(&process)?)?;
        if wait_until(PATIENCE, || server.answers(site) || !process.is_running()) && process.is_running() {
            return Ok(process);
        }
        let (ended, name, log) = (!process.is_running(), server.name(), tail(&server.log(site)));
        process.crash()?;
        if !ended || starts == STARTS {
            return Err(io::Error::other(format!("{name} does not answer on port {}; {log}", site.port)));
        }
    }
}

/// Whether a server that speaks first, or after `request`, begins its answer like this.
pub(crate) fn says(port: u16, request: &[u8], beginning: &[u8]) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(request)?;
        let mut answer = vec![0; beginning.len()];
        stream.read_exact(&mut answer)?;
        Ok(answer == beginning)
    };
    ask().unwrap_or(false)
}
