//! The native log and adopted tables on a file.

mod adopted;
mod append;
mod application;
mod common;
mod desk;
mod file;
mod inbox;
mod plans;
mod processes;
mod random;
mod schema;
mod source;
mod suite;
