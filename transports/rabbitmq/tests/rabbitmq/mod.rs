//! The RabbitMQ transport against real brokers, through a proxy where something happens on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod blocked;
mod check;
mod fake;
mod lag;
mod login;
mod lost;
mod place;
mod refused;
mod routes;
mod size;
mod suite;
mod topology;
