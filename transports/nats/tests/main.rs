//! The transport and the feed on a real server.

mod feed;
mod nats;
