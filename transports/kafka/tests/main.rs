//! The transport and the subscription on a real broker.

mod cluster;
mod kafka;
mod subscription;
mod suite;
