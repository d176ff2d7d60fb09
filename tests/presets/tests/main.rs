//! Systems that are taken over with one name.

mod campaign;
mod corebilling;
mod crowd;
mod eventqueue;
mod holdco;
mod m4;
mod payments;
mod rights;
