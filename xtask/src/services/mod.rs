//! `cargo xtask services up | down | status`: the real servers that tests talk to, on loopback and free ports, with
//! their data in one temporary folder.
//!
//! A server implements [`Server`], here or (if tests have one of their own) in `postroom_servers`, and is one line in
//! [`SERVERS`].

mod pgbouncer;
mod postgres;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

pub(crate) use self::postgres::FOR_TESTS;
use self::postgres::OtherPostgres;

use postroom_servers::brokers::{Kafka, Nats, NatsTls, RabbitMq, Redis};
use postroom_servers::{
    NEWEST_POSTGRES, OLDEST_POSTGRES, PATIENCE, Postmaster, Running, Server, Site, State, end_leftovers,
    start as start_and_wait, unique_folder,
};

/// In the order they start; later ones may need earlier ones.
const SERVERS: &[&dyn Server] = &[
    &postgres::Postgres,
    &pgbouncer::PgBouncer::Transactions,
    &pgbouncer::PgBouncer::AsShipped,
    &OtherPostgres { name: OLDEST_POSTGRES, version: "14.24.0" },
    &OtherPostgres { name: NEWEST_POSTGRES, version: "18.6.0" },
    &Nats,
    &NatsTls,
    &Redis,
    &RabbitMq,
    &Kafka,
];

/// Starts those of these names, or all, unless they are there. What is left of others is removed first.
pub(crate) fn up(names: &[&str]) -> io::Result<()> {
    if let Some(unknown) = names.iter().find(|name| !SERVERS.iter().any(|server| server.name() == **name)) {
        let known: Vec<&str> = SERVERS.iter().map(|server| server.name()).collect();
        return Err(io::Error::other(format!("there is no server {unknown:?}: they are {}", known.join(", "))));
    }
    let wanted = || SERVERS.iter().filter(|server| names.is_empty() || names.contains(&server.name()));
    if let Some(state) = State::read()? {
        if wanted().all(|server| is_well(*server, &state)) {
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
    state.certificates().make()?;
    let started = wanted().try_for_each(|server| start(*server, &mut state));
    if started.is_err() {
        remove(&state)?;
    }
    started?;
    print(&state);
    Ok(())
}

/// Stops them all and removes their folder; what they logged can be kept in another.
pub(crate) fn down(keep: Option<&Path>) -> io::Result<()> {
    if let Some(state) = State::read()? {
        if let Some(folder) = keep {
            keep_logs(&state, folder)?;
        }
        remove(&state)?;
    }
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

/// Whether those of these names are up.
pub(crate) fn are_well(names: &[&str]) -> io::Result<bool> {
    let Some(state) = State::read()? else { return Ok(false) };
    Ok(SERVERS.iter().filter(|server| names.contains(&server.name())).all(|server| is_well(*server, &state)))
}

fn keep_logs(state: &State, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for server in SERVERS {
        if let Some(running) = state.servers.get(server.name()) {
            let log = server.log(&running.site);
            if log.is_file() {
                fs::copy(log, folder.join(server.name()).with_extension("log"))?;
            }
        }
    }
    Ok(())
}

fn start(server: &dyn Server, state: &mut State) -> io::Result<()> {
    let (since, name) = (Instant::now(), server.name());
    let site = Site::new(server, state.folder.join(name), state)?;
    server.prepare(&site, state)?;
    let process = start_and_wait(server, &site)?;
    state.servers.insert(name.to_owned(), Running { site, process });
    state.write()?;
    eprintln!("{name} is up after {:.1} s", since.elapsed().as_secs_f64());
    Ok(())
}

fn is_well(server: &dyn Server, state: &State) -> bool {
    let running = state.servers.get(server.name());
    running.is_some_and(|running| running.process.is_running() && server.answers(&running.site))
}

fn print(state: &State) {
    println!("{:<12} {:>15} {:>9}  health", "server", "address", "process");
    for server in SERVERS {
        let (name, health) = (server.name(), if is_well(*server, state) { "up" } else { "down" });
        match state.servers.get(name) {
            Some(Running { site, process }) => {
                let address = format!("127.0.0.1:{}", site.port);
                let more: Vec<String> = site.more.iter().map(|(name, port)| format!("{name} {port}")).collect();
                println!("{name:<12} {address:>15} {:>9}  {health:<5} {}", process.pid, more.join("  "));
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
    end_leftovers(&state.own())?;
    for server in SERVERS.iter().rev() {
        if let Some(running) = state.servers.get(server.name()) {
            running.process.end(server.stop_signal(), PATIENCE)?;
        }
    }
    end_leftovers(&state.folder)?;
    match fs::remove_dir_all(&state.folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => State::forget(),
    }
}
