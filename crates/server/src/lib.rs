//! From configuration to running relays: knows every store and transport.
//!
//! [`config`] reads what people wrote, [`stores`] and [`transports`] make the parts, [`relay`] runs them and [`reload`] runs them anew, [`replays`] works on what is sent again, [`supervisor`] tells systemd how it does, [`online`] asks whether they would
//! work, [`doctor`] what is wrong with them, [`adopt`] what an outbox table that is there already is like. [`operating`] is what a running relay shows of itself: its [`metrics`] and its
//! [`health`], over [`http`], and `telemetry` the traces of what it does.

#[cfg(feature = "adopted")]
pub mod adopt;
pub mod config;
pub mod dashboards;
#[cfg(feature = "http")]
mod desks;
pub mod doctor;
mod first;
pub mod health;
#[cfg(feature = "http")]
pub mod http;
pub mod metrics;
pub mod online;
pub mod operating;
pub mod pulls;
mod reach;
pub mod redact;
pub mod relay;
pub mod reload;
pub mod replays;
#[cfg(feature = "http")]
mod search;
pub mod status;
pub mod stores;
pub mod supervisor;
pub mod tail;
#[cfg(feature = "otlp")]
pub mod telemetry;
#[cfg(feature = "http")]
pub mod token;
pub mod transports;
