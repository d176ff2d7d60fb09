//! The native log and adopted tables on a real PostgreSQL.

mod adopted;
mod application;
mod begin;
mod engine;
mod hazards;
mod plans;
mod position;
mod suite;
mod upkeep;
