//! What is kept beside adopted tables: routes and who holds them, heartbeats, what a table has no column for.

pub(crate) mod rights;
pub(crate) mod routes;
mod schema;

pub(crate) use schema::{AdoptedSchema, NEEDS};
