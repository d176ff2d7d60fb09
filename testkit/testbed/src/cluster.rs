//! A private PostgreSQL cluster, for tests that stop, crash, fill, slow down or promote a server.
//!
//! Starting one takes about half a second; every call runs beside the runtime, so what the test has running goes on.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Postmaster, Servers, free_port, owned_folder, tail, unique_name};

/// A cluster of one's own. Its processes and its data go with it.
#[derive(Debug)]
pub struct Cluster {
    home: PathBuf,
    postmaster: Postmaster,
}

/// How a cluster differs from the default.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// `postgresql.conf`, by name and value.
    pub settings: Vec<(String, String)>,
    /// Variables of its processes: see [`faketime`].
    pub environment: Vec<(String, String)>,
    /// An empty folder for its data, for instance on a small disk. Defaults to one of its own.
    pub data: Option<PathBuf>,
    /// Whether it has a system identifier that no other cluster has; costs most of a second.
    pub own_identity: bool,
}

impl Cluster {
    /// Starts one with these settings.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_with(ClusterOptions { settings: owned(settings), ..Default::default() }).await
    }

    /// Starts one with these options.
    pub async fn start_with(options: ClusterOptions) -> Self {
        let own_identity = options.own_identity;
        Self::make(options, move |postmaster| {
            if own_identity { postmaster.init() } else { postmaster.copy_of(&Servers::find().state().template()) }
        })
        .await
    }

    /// Starts one that follows this one by streaming replication. With a setting `primary_conninfo` it can do so
    /// through a proxy.
    pub async fn standby_of(primary: &Self, settings: &[(&str, &str)]) -> Self {
        let options = ClusterOptions { settings: owned(settings), ..Default::default() };
        let primary = primary.postmaster.clone();
        Self::make(options, move |postmaster| postmaster.follow(&primary)).await
    }

    async fn make(options: ClusterOptions, fill: impl FnOnce(&Postmaster) -> io::Result<()> + Send + 'static) -> Self {
        beside("start", move || {
            let clusters = Servers::find().state().clusters();
            owned_folder(&clusters)?;
            let home = clusters.join(unique_name("cluster"));
            fs::create_dir(&home)?;
            let data = home.join("data");
            match &options.data {
                Some(given) => {
                    owned_folder(given)?;
                    symlink(given, &data)?;
                }
                None => owned_folder(&data)?,
            }
            owned_folder(&home)?;
            let postmaster = Postmaster::new(data, free_port()?).environment(options.environment);
            // From here on its Drop cleans up, also when it does not start.
            let cluster = Self { home, postmaster };
            fill(&cluster.postmaster)?;
            let settings: Vec<_> =
                options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            cluster.postmaster.configure(&settings)?;
            cluster.postmaster.start()?;
            Ok(cluster)
        })
        .await
    }

    /// How to connect to one of its databases; `postgres` is always there.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.postmaster.port())
    }

    /// Where it listens on 127.0.0.1, also while it is stopped.
    pub fn port(&self) -> u16 {
        self.postmaster.port()
    }

    /// Its data folder.
    pub fn data(&self) -> &Path {
        self.postmaster.data()
    }

    /// Stops it in good order, without waiting for clients.
    pub async fn stop_fast(&self) {
        self.ask("stop", Postmaster::stop_fast).await;
    }

    /// Kills its first process and then all others, like a crash.
    pub async fn kill_postmaster(&self) {
        self.ask("kill", Postmaster::crash).await;
    }

    /// Starts it on the same port after a stop or a crash, and waits until it takes connections.
    pub async fn start_again(&self) {
        self.ask("start again", |postmaster| postmaster.start().map(drop)).await;
    }

    /// Makes a standby a primary.
    pub async fn promote(&self) {
        self.ask("promote", Postmaster::promote).await;
    }

    async fn ask(&self, what: &'static str, act: fn(&Postmaster) -> io::Result<()>) {
        let postmaster = self.postmaster.clone();
        beside(what, move || act(&postmaster)).await;
    }
}

impl Drop for Cluster {
    #[expect(clippy::print_stderr, reason = "the test's output says what the server said")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", tail(&self.postmaster.log()));
        }
        let gone = self.postmaster.stop_now().and_then(|()| fs::remove_dir_all(&self.home));
        if let Err(error) = gone {
            eprintln!("the cluster in {} cannot be removed: {error}", self.home.display());
        }
    }
}

/// Variables that shift the clock of a cluster, as `faketime` writes it: `+1h`, `-90s`. Only the time of day: what
/// PostgreSQL measures and waits by runs on.
///
/// # Panics
///
/// Without Debian's package `faketime`.
#[expect(clippy::panic, reason = "for tests")]
pub fn faketime(shift: &str) -> Vec<(String, String)> {
    let folder = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let library = folder.join("faketime/libfaketime.so.1");
    assert!(library.is_file(), "{} is not there: run apt-get install faketime", library.display());
    let Some(library) = library.to_str() else { panic!("{} is no text", library.display()) };
    owned(&[("LD_PRELOAD", library), ("FAKETIME", shift), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")])
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Runs what blocks on a thread for that.
#[expect(clippy::panic, reason = "for tests")]
async fn beside<T: Send + 'static>(what: &str, act: impl FnOnce() -> io::Result<T> + Send + 'static) -> T {
    match tokio::task::spawn_blocking(act).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => panic!("cannot {what} a cluster: {error}"),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
