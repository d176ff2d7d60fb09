//! Real processes of the program, real servers, and what goes wrong with both.

mod backlog;
mod brokers;
mod children;
mod demo;
mod failover;
mod file;
mod fleet;
mod input;
mod kill;
mod package;
mod poison;
mod signals;
mod soak;
mod standby;
mod stores;
