//! The transport and the feed on a real broker.

mod cluster;
mod feed;
mod kafka;
mod suite;
