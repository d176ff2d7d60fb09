//! From configuration to running relays: knows every store and transport.
//!
//! [`config`] reads what people wrote, [`stores`] and [`transports`] make the parts, [`relay`] runs them, [`online`] asks whether they would
//! work, [`doctor`] what is wrong with them, [`adopt`] what an outbox table that is there already is like.

pub mod adopt;
pub mod config;
pub mod doctor;
pub mod online;
mod reach;
pub mod relay;
pub mod stores;
pub mod transports;
