//! The certificate of the listener, read anew when its files change.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom_tls::{ServerTlsFiles, TlsError};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// How often the files are looked at, when somebody connects.
const LOOKED_AT: Duration = Duration::from_secs(2);

/// The certificate of the listener.
#[derive(Debug)]
pub(super) struct Certificates {
    files: ServerTlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    stamps: Vec<Stamp>,
    looked_at: Instant,
}

/// What tells that a file was replaced: its time and its size.
type Stamp = Option<(std::time::SystemTime, u64)>;

impl Certificates {
    /// Reads the files.
    pub(super) fn read(files: &ServerTlsFiles) -> Result<Self, TlsError> {
        let current = Current { stamps: stamps(files), config: Arc::new(files.server()?), looked_at: Instant::now() };
        Ok(Self { files: files.clone(), current: Mutex::new(current) })
    }

    /// The acceptor of the next connection. Files that changed are read first; those that cannot be used are reported, and
    /// the certificate of before stays.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked_at.elapsed() >= LOOKED_AT {
            current.looked_at = Instant::now();
            let stamps = stamps(&self.files);
            if stamps != current.stamps {
                match self.files.server() {
                    Ok(config) => {
                        current.config = Arc::new(config);
                        tracing::info!(cert_file = %self.files.cert_file.display(), "certificate of the HTTP server read again");
                    }
                    Err(error) => {
                        tracing::error!(%error, "certificate of the HTTP server not replaced; the previous one stays in use");
                    }
                }
                current.stamps = stamps;
            }
        }
        TlsAcceptor::from(Arc::clone(&current.config))
    }
}

fn stamps(files: &ServerTlsFiles) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.paths().map(stamp).collect()
}
