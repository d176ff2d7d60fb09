//! From configuration to running relays: knows every store and transport.
//!
//! [`config`] reads what people wrote.

pub mod config;
