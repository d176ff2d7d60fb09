//! Attacks on a running program from outside: by networks, neighbours on the machine, producers and handlers.

mod brokers;
mod collector;
mod database;
mod files;
mod handler;
mod network;
mod size;
mod terminal;
mod webhook;
