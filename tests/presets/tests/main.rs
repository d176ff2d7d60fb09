//! Systems that are taken over with one name.

mod campaign;
mod consumer;
mod corebilling;
mod crowd;
mod eventqueue;
mod holdco;
mod m4;
mod metrics;
mod payments;
mod rights;
