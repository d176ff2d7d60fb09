//! Refused requests: counted each, and logged now and then, so that somebody who guesses tokens is seen and fills no disk.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use postroom_core::metrics as names;

use crate::metrics::Metrics;

/// Shortest time between two log lines.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// The address that a request came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Refused requests since the last log line.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Unlogged>);

#[derive(Debug, Default)]
struct Unlogged {
    logged: Option<Instant>,
    count: u64,
}

impl Refusals {
    /// Counts a refused request, and logs those since the last line if that was long ago.
    pub(super) fn note(&self, metrics: &Metrics, reason: &'static str, peer: Option<IpAddr>) {
        metrics.counter(&names::HTTP_REFUSED, &[reason]).increment(1);
        let mut unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        if unlogged.logged.is_some_and(|logged| logged.elapsed() < LOGGED_EVERY) {
            return;
        }
        let count = std::mem::take(&mut unlogged.count);
        unlogged.logged = Some(Instant::now());
        drop(unlogged);
        let peer = peer.map(tracing::field::display);
        tracing::warn!(reason, peer, count, "requests to the HTTP server refused");
    }
}
