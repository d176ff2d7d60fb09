//! The program as a whole, on real files: exit code, stdout and stderr of every command.

#![allow(clippy::format_push_string, clippy::format_collect, reason = "a test may spend an allocation")]

mod act;
#[cfg(feature = "postgres")]
mod adopt;
mod adopted;
mod append;
mod canary;
mod contracts;
mod counts;
mod dev;
mod docs;
mod doctor;
mod export;
mod facts;
#[cfg(all(
    feature = "postgres",
    feature = "kafka",
    feature = "rabbitmq",
    feature = "nats",
    feature = "redis",
    feature = "webhook"
))]
mod hostile;
mod http;
mod ids;
mod incident;
mod logs;
mod look;
mod manual;
mod mistakes;
mod network;
mod night;
#[cfg(feature = "postgres")]
mod postgres;
mod pull;
mod questions;
mod reader;
mod relay;
mod replays;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod secrets;
#[cfg(all(
    feature = "postgres",
    feature = "kafka",
    feature = "rabbitmq",
    feature = "nats",
    feature = "redis",
    feature = "webhook"
))]
mod support;
mod terminal;
mod tokens;
mod top;
mod traces;
#[cfg(feature = "webhook")]
mod webhook;
mod world;
mod wrong;
