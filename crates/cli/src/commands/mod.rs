//! One file per noun: its options and what it does. Every command works on the store; none needs a relay.

#[cfg(feature = "adopted")]
pub(crate) mod adopt;
pub(crate) mod audit;
pub(crate) mod check;
mod compare;
#[cfg(feature = "manual")]
pub(crate) mod completions;
pub(crate) mod config;
mod consumers;
pub(crate) mod dashboards;
pub(crate) mod dead;
pub(crate) mod delivery;
pub(crate) mod doctor;
pub(crate) mod erase;
pub(crate) mod event;
pub(crate) mod explain;
mod finding;
pub(crate) mod inbox;
pub(crate) mod key;
#[cfg(feature = "manual")]
pub(crate) mod man;
pub(crate) mod preset;
mod preview;
mod probe;
pub(crate) mod prune;
pub(crate) mod relay;
pub(crate) mod replay;
mod replays;
pub(crate) mod report;
pub(crate) mod route;
#[cfg(feature = "contracts")]
pub(crate) mod schema;
mod spark;
pub(crate) mod status;
pub(crate) mod store;
#[cfg(feature = "support")]
pub(crate) mod support;
#[cfg(feature = "http")]
pub(crate) mod token;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod verify;
pub(crate) mod version;
mod watched;
#[cfg(feature = "webhook")]
pub(crate) mod webhook;
mod which;
