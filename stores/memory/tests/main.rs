//! The reference store.

mod suite;
mod throughput;
