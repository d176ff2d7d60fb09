//! What a relay answers over HTTP: one listener for health, metrics and the API.
//!
//! `endpoints` is the table of the API, `router` leads a request to them: `auth` says who may, `params` what may be said,
//! `idempotency` what was done already. `api` answers; `operations` are the pages for machines that watch machines.

mod api;
mod auth;
mod call;
mod endpoints;
mod idempotency;
mod openapi;
mod operations;
mod params;
mod problem;
mod router;

use std::future::{Future, IntoFuture as _};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{Alias, Config, Listen};
use crate::operating::Operating;
use auth::Guard;
use idempotency::Answered;
use problem::Problem;

pub use openapi::{describe, reference};

/// Streams at a time: each asks the stores every second.
const STREAMS_MAX: usize = 16;
/// How long what is being answered at the end may take.
const END_WITHIN: Duration = Duration::from_secs(3);

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Site {
    operating: Arc<Operating>,
    guard: Guard,
    /// Whether only this machine can ask.
    local: bool,
    answered: Answered,
    aliases: Vec<Alias>,
    streams: Arc<Semaphore>,
    over: CancellationToken,
}

impl Site {
    /// A place for one more stream, as long as it is held.
    fn seat(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let detail = format!("{STREAMS_MAX} streams are open already");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.streams", detail).hint("close one of them")
        })
    }
}

/// A listener that is bound, and what is to be answered on it.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    site: Arc<Site>,
}

impl Server {
    /// Binds the address of the configuration, if there is one. Taken by somebody else is an error only when it was asked for.
    pub async fn bind(config: &Config, operating: Arc<Operating>) -> Result<Option<Self>, BindError> {
        let Some(Listen { address, must }) = config.http.listen else { return Ok(None) };
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) if must => return Err(BindError { address, error }),
            Err(error) => {
                tracing::warn!(%address, %error, "nothing is answered over HTTP; set http.listen to another address");
                return Ok(None);
            }
        };
        let site = Site {
            operating,
            guard: Guard::new(&config.http),
            local: address.ip().is_loopback(),
            answered: Answered::default(),
            aliases: config.http.metrics_alias.clone(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            over: CancellationToken::new(),
        };
        Ok(Some(Self { listener, site: Arc::new(site) }))
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` resolves, and what was being answered then.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        if let Ok(address) = self.address() {
            tracing::info!(%address, "answers over HTTP");
        }
        let over = self.site.over.clone();
        let ended = over.clone().cancelled_owned();
        let served = axum::serve(self.listener, router::router(self.site)).with_graceful_shutdown(ended);
        let mut served = tokio::spawn(served.into_future());
        tokio::select! {
            done = &mut served => {
                tracing::error!(error = ?done, "nothing is answered over HTTP any more");
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
