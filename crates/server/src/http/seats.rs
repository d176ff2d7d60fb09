//! Places for live streams, in all and per caller: each asks the stores every second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;

use super::auth::Caller;
use super::problem::Problem;

/// Streams at a time.
const STREAMS_MAX: usize = 96;
/// Streams of one caller at a time: people keep tabs open.
const STREAMS_OF_CALLER_MAX: usize = 24;

/// Places for live streams.
#[derive(Debug, Clone, Default)]
pub(super) struct Seats(Arc<Mutex<HashMap<String, usize>>>);

impl Seats {
    /// A place for one more stream, as long as it is held.
    pub(super) fn take(&self, caller: &Caller) -> Result<Seat, Problem> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let theirs = taken.entry(caller.key().to_owned()).or_default();
        let full = |count: usize, whose: &str| {
            let detail = format!("{count} streams{whose} are open already");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.streams", detail).hint("close one of them")
        };
        if *theirs >= STREAMS_OF_CALLER_MAX {
            return Err(full(STREAMS_OF_CALLER_MAX, " of this caller"));
        }
        if all >= STREAMS_MAX {
            return Err(full(STREAMS_MAX, ""));
        }
        *theirs += 1;
        Ok(Seat { seats: self.clone(), caller: caller.key().to_owned() })
    }
}

/// A place for a live stream.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    caller: String,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(theirs) = taken.get_mut(&self.caller) {
            *theirs -= 1;
            if *theirs == 0 {
                taken.remove(&self.caller);
            }
        }
    }
}
