//! From configuration to running relays: knows every store and transport.
//!
//! [`config`] reads the configuration, [`stores`] and [`transports`] make the parts, [`relay`] runs them and [`reload`] runs
//! them anew, [`renamed`] finds routes that would leave their events behind, [`replays`] works on replays, [`supervisor`] reports to systemd, [`preflight`] asks whether the parts would work
//! and [`doctor`] what is wrong with them. [`monitor`] is what a running relay shows of itself: its [`metrics`] and its
//! [`health`], over [`http`]; `telemetry` exports traces.

#[cfg(feature = "http")]
mod admin_stores;
pub mod codes;
pub mod config;
mod connect;
mod consumers;
pub mod dashboards;
mod discard;
pub mod doctor;
pub mod event_json;
pub mod health;
#[cfg(feature = "http")]
pub mod http;
mod leader;
pub mod metrics;
pub mod monitor;
pub mod preflight;
pub mod pulls;
pub mod redact;
pub mod relay;
pub mod reload;
pub mod renamed;
pub mod replays;
pub mod run_error;
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
