//! Each example does what its README says, and takes over what the old worker has left.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

mod corebilling;
mod eventqueue;
mod holdco;
mod m4;
mod payments;
