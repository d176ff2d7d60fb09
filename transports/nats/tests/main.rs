//! The transport and the subscription on a real server.

mod nats;
mod subscription;
