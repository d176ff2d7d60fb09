//! What a relay answers over HTTP: one listener for health, metrics and the API.
//!
//! `site` has what all handlers share, `auth` says who may, `operations` are the pages for machines that watch machines.

mod auth;
mod operations;
mod problem;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::config::{Config, Listen};
use crate::operating::Operating;
use auth::Guard;

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Site {
    operating: Arc<Operating>,
    guard: Guard,
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
        let site = Site { operating, guard: Guard::new(&config.http) };
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
        let served = axum::serve(self.listener, router(self.site)).with_graceful_shutdown(stop).await;
        if let Err(error) = served {
            tracing::error!(%error, "nothing is answered over HTTP any more");
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

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/livez", get(operations::livez))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        .route("/v1/health", get(operations::health))
        .route("/v1/metrics", get(operations::metrics))
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::wrong_method)
        .with_state(site)
}
