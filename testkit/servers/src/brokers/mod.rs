//! The brokers that transports deliver to, each as [`Server`](super::Server): in the shared set of `cargo xtask services
//! up`, and as [`OwnServer`](super::OwnServer) for tests that stop or break theirs.

mod kafka;
mod nats;
mod rabbitmq;
mod redis;

pub use kafka::Kafka;
pub use nats::{Nats, NatsPlain, NatsTls, NatsWith};
pub use rabbitmq::RabbitMq;
pub use redis::{Redis, RedisWith};

/// Who may do everything, on listeners that ask.
pub const USER: &str = "relay";
/// Who may log in and do nothing.
pub const LIMITED_USER: &str = "limited";
/// The password of both; as such it must turn up nowhere.
pub const PASSWORD: &str = "canary-4711-password";
