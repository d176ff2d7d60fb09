//! What a relay answers over HTTP: one listener for health, metrics and the API.
//!
//! `endpoints` is the table of the API, `router` leads a request to them: `auth` says who may, `params` what may be said,
//! `idempotency` what was done already. `api` answers; `operations` are the pages for machines that watch machines.

mod api;
mod auth;
mod call;
mod codes;
mod connections;
mod endpoints;
mod hidden;
mod idempotency;
mod listener;
mod openapi;
mod operations;
mod params;
mod problem;
mod refusals;
mod router;
mod seats;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{Alias, Config, Listen};
use crate::monitor::Monitor;
use auth::Guard;
use connections::Connections;
use idempotency::Answered;
use refusals::Refusals;
use seats::Seats;
use tls::Certificates;

pub(crate) use codes::CODES;
pub use openapi::{describe, reference};

/// How long what is being answered at the end may take.
const END_WITHIN: Duration = Duration::from_secs(3);

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Site {
    monitor: Arc<Monitor>,
    guard: Guard,
    /// Whether only this machine can ask.
    local: bool,
    /// Names under which it is asked, beside its addresses.
    hosts: Vec<String>,
    answered: Answered,
    aliases: Vec<Alias>,
    seats: Seats,
    refusals: Refusals,
    over: CancellationToken,
}

/// A listener that is bound, and what is to be answered on it.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    certificates: Option<Arc<Certificates>>,
    site: Arc<Site>,
}

impl Server {
    /// Binds the address of the configuration, if there is one. Taken by somebody else is an error only when it was asked for.
    pub async fn bind(config: &Config, monitor: Arc<Monitor>) -> Result<Option<Self>, BindError> {
        let Some(Listen { address, must }) = config.http.listen else { return Ok(None) };
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) if must => return Err(BindError { address, error }),
            Err(error) => {
                tracing::warn!(%address, %error, "HTTP server did not start; set http.listen to another address");
                return Ok(None);
            }
        };
        let certificates = match config.http.tls.as_ref().map(Certificates::read).transpose() {
            Ok(certificates) => certificates.map(Arc::new),
            Err(error) => return Err(BindError { address, error: io::Error::other(error) }),
        };
        let site = Site {
            monitor,
            guard: Guard::new(&config.http),
            local: address.ip().is_loopback(),
            hosts: config.http.hosts.clone(),
            answered: Answered::default(),
            aliases: config.http.metrics_alias.clone(),
            seats: Seats::default(),
            refusals: Refusals::default(),
            over: CancellationToken::new(),
        };
        Ok(Some(Self { listener, certificates, site: Arc::new(site) }))
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` resolves, and what was being answered then.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        if let Ok(address) = self.address() {
            tracing::info!(%address, "HTTP server started");
        }
        let over = self.site.over.clone();
        let connections = Arc::new(Connections::new(&self.site.monitor.metrics));
        let router = router::router(self.site);
        let served = listener::serve(self.listener, self.certificates, connections, router, over.clone());
        let mut served = tokio::spawn(served);
        tokio::select! {
            done = &mut served => {
                tracing::error!(error = ?done, "HTTP server stopped");
                return;
            }
            () = stop => over.cancel(),
        }
        // Who sends a request and never ends it does not keep the program from ending.
        if timeout(END_WITHIN, &mut served).await.is_err() {
            served.abort();
        }
    }
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    /// Which.
    pub address: SocketAddr,
    /// Why.
    pub error: io::Error,
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.error)
    }
}

impl std::error::Error for BindError {}
