//! The transport and the subscription on a real server.

mod rabbitmq;
mod subscription;
