//! From a file to running relays, and what they answer over HTTP.

mod api;
mod bad_files;
mod docs;
mod layers;
mod run;
mod schema;
