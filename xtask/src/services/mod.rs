//! `cargo xtask services up | down | status`: the real servers that tests talk to, on loopback and free ports, with
//! their data in one temporary folder.
//!
//! A server is one file here that implements [`Server`], and one line in [`SERVERS`].

mod pgbouncer;
mod postgres;

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use postroom_conformance::servers::{
    Postmaster, Process, Running, State, free_port, owned_folder, tail, unique_folder, wait_until,
};

/// In the order they start; later ones may need earlier ones.
const SERVERS: &[&dyn Server] = &[&postgres::Postgres, &pgbouncer::PgBouncer];

/// How long a server may take until it answers, and until it has stopped.
const PATIENCE: Duration = Duration::from_mins(1);

/// What differs from server to server.
trait Server {
    /// Its name in the state file.
    fn name(&self) -> &'static str;
    /// Starts it on `port` with everything it writes in `folder`, away from the terminal, so that Ctrl-C does not reach it.
    fn start(&self, folder: &Path, port: u16, so_far: &State) -> io::Result<Process>;
    /// Whether it does its work.
    fn answers(&self, port: u16) -> bool;
    /// Its log in `folder`.
    fn log(&self, folder: &Path) -> std::path::PathBuf;
    /// The signal on which it stops soon and in good order.
    fn stop_signal(&self) -> Signal;
}

/// Starts them all, unless they are there. What is left of others is removed first.
pub(crate) fn up() -> io::Result<()> {
    if let Some(state) = State::read()? {
        if SERVERS.iter().all(|server| is_well(*server, &state)) {
            println!("already up");
            print(&state);
            return Ok(());
        }
        remove(&state)?;
    }
    let folder = unique_folder("postroom-services")?;
    let mut state = State { folder, servers: [].into() };
    // Written before each server starts as well: whatever happens, `down` finds the folder.
    state.write()?;
    let started = SERVERS.iter().try_for_each(|server| start(*server, &mut state));
    if started.is_err() {
        remove(&state)?;
    }
    started?;
    print(&state);
    Ok(())
}

/// Stops them all and removes their folder.
pub(crate) fn down() -> io::Result<()> {
    match State::read()? {
        Some(state) => remove(&state),
        None => Ok(()),
    }?;
    println!("down");
    Ok(())
}

/// Prints where they are; says whether all are well.
pub(crate) fn status() -> io::Result<bool> {
    let Some(state) = State::read()? else {
        println!("down: run cargo xtask services up");
        return Ok(false);
    };
    print(&state);
    Ok(SERVERS.iter().all(|server| is_well(*server, &state)))
}

fn start(server: &dyn Server, state: &mut State) -> io::Result<()> {
    let (since, name) = (Instant::now(), server.name());
    let folder = state.folder.join(name);
    owned_folder(&folder)?;
    let port = free_port()?;
    let process = server.start(&folder, port, state)?;
    state.servers.insert(name.to_owned(), Running { port, process });
    state.write()?;
    if !wait_until(PATIENCE, || server.answers(port) || !process.is_running()) || !process.is_running() {
        let log = tail(&server.log(&folder));
        return Err(io::Error::other(format!("{name} does not answer on port {port}; {log}")));
    }
    eprintln!("{name} is up after {:.1} s", since.elapsed().as_secs_f64());
    Ok(())
}

fn is_well(server: &dyn Server, state: &State) -> bool {
    let running = state.servers.get(server.name());
    running.is_some_and(|running| running.process.is_running() && server.answers(running.port))
}

fn print(state: &State) {
    println!("{:<12} {:>15} {:>9}  health", "server", "address", "process");
    for server in SERVERS {
        let (name, health) = (server.name(), if is_well(*server, state) { "up" } else { "down" });
        match state.servers.get(name) {
            Some(Running { port, process }) => {
                println!("{name:<12} {:>15} {:>9}  {health}", format!("127.0.0.1:{port}"), process.pid);
            }
            None => println!("{name:<12} {:>15} {:>9}  {health}", "-", "-"),
        }
    }
    println!("data in {}", state.folder.display());
}

fn remove(state: &State) -> io::Result<()> {
    // Clusters of tests that were killed before they could clean up.
    for cluster in fs::read_dir(state.clusters()).into_iter().flatten().flatten() {
        Postmaster::new(cluster.path().join("data"), 0).stop_now()?;
    }
    for server in SERVERS.iter().rev() {
        if let Some(running) = state.servers.get(server.name()) {
            running.process.end(server.stop_signal(), PATIENCE)?;
        }
    }
    match fs::remove_dir_all(&state.folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => State::forget(),
    }
}
