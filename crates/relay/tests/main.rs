//! The engine and the transports that need no network.

mod engine;
mod transports;
