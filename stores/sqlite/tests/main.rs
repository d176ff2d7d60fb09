//! The native log and adopted tables on a file.

mod admin;
mod adopted;
mod append;
mod application;
mod common;
mod file;
mod inbox;
mod plans;
mod pool;
mod processes;
mod random;
mod schema;
mod source;
mod suite;
