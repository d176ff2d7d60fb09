//! The program as a whole, on real files: exit code, stdout and stderr of every command.

#![allow(clippy::format_push_string, clippy::format_collect, reason = "a test may spend an allocation")]

mod act;
#[cfg(feature = "postgres")]
mod adopt;
mod adopted;
mod append;
mod canary;
mod contracts;
mod dev;
mod docs;
mod doctor;
mod export;
mod facts;
mod http;
mod incident;
mod logs;
mod look;
mod manual;
#[cfg(feature = "postgres")]
mod postgres;
mod pull;
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
mod tokens;
mod top;
mod traces;
#[cfg(feature = "webhook")]
mod webhook;
mod world;
mod wrong;
